"""Answers that are not a page, and what they mean: try again, give up, or the page is gone. Pure."""

from urllib.parse import urlsplit

from forager.core.errors import Permanent, Transient
from forager.core.http import Response
from forager.core.reasons import ErrorType, Reason
from forager.extract.document import is_binary

BLOCKED, NOT_FOUND, REFUSED, NOT_A_PAGE = Reason.BLOCKED.value, "not_found", "refused", "not_a_page"
SOFT_NOT_FOUND = "soft_not_found"
REASONS = frozenset({NOT_FOUND, REFUSED, NOT_A_PAGE})
GONE = frozenset({404, 410})
_TEXTUAL = ("html", "xml", "text/plain")


def refuse_unless_answered(response: Response) -> None:
    """Raise unless the answer is a success: `Transient` if it may pass, `Permanent` with the page if it will not."""
    status, where = response.status, place_of(response)
    if status >= 500:
        message, reason = f"{where} failed ({status}).", Reason.SERVER_ERROR
        raise Transient(message, facts=facts_of(response), reason=reason, error_type=ErrorType.HTTP)
    if response.looks in ("block", "challenge"):
        message = f"{where} takes us for a robot ({status}). Slow the lane down, or use other proxies."
        raise _refused(response, BLOCKED, message, ErrorType.BLOCKED)
    if status in GONE:
        raise _refused(response, NOT_FOUND, f"{where} has no such page ({status}).", ErrorType.HTTP)
    if status >= 300:
        raise _refused(response, REFUSED, f"{where} refused the page ({status}).", ErrorType.HTTP)


def refuse_unless_page(response: Response) -> None:
    """The same, and it must be text."""
    refuse_unless_answered(response)
    kind = (header(response, "content-type") or "").lower()
    if is_binary(response.body, kind):
        message = f"{place_of(response)} sent binary data, which is not a web page."
        raise _refused(response, NOT_A_PAGE, message, ErrorType.PARSE)
    if kind and not any(known in kind for known in _TEXTUAL):
        message = f"{place_of(response)} sent {kind.partition(';')[0]}, which is not a web page."
        raise _refused(response, NOT_A_PAGE, message, ErrorType.PARSE)


def header(response: Response, name: str) -> str | None:
    """A header by its name in lower case."""
    return next((value for key, value in response.headers.items() if key.lower() == name), None)


def place_of(response: Response) -> str:
    """Host and path, without the query."""
    parts = urlsplit(response.url)
    return f"{parts.hostname or 'The site'}{parts.path}"[:200]


def facts_of(response: Response) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}


def _refused(response: Response, reason: str, message: str, error_type: ErrorType) -> Permanent:
    evidence, facts = response.evidence(), facts_of(response)
    return Permanent(message, evidence=evidence, cost=1, facts=facts, reason=reason, error_type=error_type)
