"""Serper, the search upstream that several pipelines use: its key, its prices, what its refusals mean. Pure.

One account pays for all of them, so they share the key, the lane `serper` and its caps. The pipeline `places` declares
the lane.
"""

from dataclasses import dataclass
from decimal import Decimal

import orjson

from forager.core.errors import Permanent, RateLimited, Transient
from forager.core.http import Response, SecretRef
from forager.core.outcome import Halt
from forager.core.states import ErrorType, Reason

API_KEY = "SERPER_API_KEY"
"""The name of the secret, not the secret."""
KEY = SecretRef(API_KEY, header="X-API-KEY")
LANE = "serper"
QUERY_REFUSED = "query_refused"

# Prices.


@dataclass(frozen=True, slots=True)
class Package:
    """A Serper package: its credits, price and rate."""

    name: str
    credits: int
    price_per_1000: Decimal
    rate: int


PACKAGES = (
    Package("Starter", 50_000, Decimal("1.00"), 50),
    Package("Standard", 500_000, Decimal("0.75"), 100),
    Package("Scale", 2_500_000, Decimal("0.50"), 200),
    Package("Ultimate", 12_500_000, Decimal("0.30"), 300),
)


def package_for(rate: int) -> Package:
    """Return the smallest package that allows this many queries per second."""
    return next((package for package in PACKAGES if package.rate >= rate), PACKAGES[-1])


# Answers that are not results.


def refused(response: Response) -> Halt:
    """Return or raise the outcome of any status but 200 (PL-9): `Halt` if an operator must act, else `Transient` or
    `Permanent`."""
    status, message = response.status, error_message(response)
    if status in (401, 403):
        return Halt(
            f"Serper refused the API key ({status}: {message}). Set SERPER_API_KEY to a valid key and resume the job."
        )
    if status == 400 and "not enough credits" in message.lower():
        return Halt(
            f"The Serper account has no credits left ({status}: {message}). "
            "Buy credits, or set SERPER_API_KEY to an account that has some, and resume the job."
        )
    if status == 429:
        raise RateLimited(
            f"Serper limited the rate of requests (429: {message}).",
            retry_after=response.retry_after(),
            facts=facts(response),
        )
    if status >= 500:
        message, reason = f"Serper failed ({status}: {message}).", Reason.SERVER_ERROR
        raise Transient(message, facts=facts(response), reason=reason, error_type=ErrorType.HTTP)
    raise Permanent(
        f"Serper refused the query ({status}: {message}).",
        evidence=response.evidence(),
        facts=facts(response),
        reason=QUERY_REFUSED,
        error_type=ErrorType.HTTP,
    )


def error_message(response: Response) -> str:
    """Return the message of an error answer: Serper's `message`, else the start of the body."""
    try:
        decoded = orjson.loads(response.body)
    except ValueError:
        decoded = None
    words = decoded.get("message") if isinstance(decoded, dict) else None
    if not isinstance(words, str):
        words = response.body[:1_000].decode("utf-8", "replace")
    words = " ".join(words.replace("\0", "").split())
    return (words[:300] if words else "no message").rstrip(".")


def facts(response: Response, **more: int) -> dict[str, int]:
    """Return the facts about a call that are stored with the task."""
    return {"api_status": response.status, "api_ms": response.elapsed_ms, **more}
