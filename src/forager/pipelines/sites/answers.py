"""Classify answers that are not pages: retry, fail, or leave out. Pure."""

from urllib.parse import urlsplit

from forager.core.errors import Permanent, Transient
from forager.core.http import Response
from forager.core.states import ErrorType, Reason
from forager.extract.html.document import is_binary

NOT_FOUND, REFUSED, NOT_A_PAGE = "not_found", "refused", "not_a_page"
OUTSIDE, TRAP, BYTES, MINUTES = "outside", "trap", "bytes", "minutes"
REASONS = frozenset({NOT_FOUND, REFUSED, NOT_A_PAGE, OUTSIDE, TRAP, BYTES, MINUTES})
GONE = frozenset({404, 410})
_TEXTUAL = ("html", "xml", "text/plain")


def refuse_unless_answered(response: Response) -> None:
    """Raise unless the answer is a success: `Transient` if it may pass, else `Permanent` with the answer."""
    status, where = response.status, place_of(response)
    if status >= 500:
        message = f"{where} failed ({status})."
        raise Transient(message, facts=facts_of(response), reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    if response.looks in ("block", "challenge"):
        message = f"{where} blocked the request as a bot ({status}). Slow the lane down, or use other proxies."
        raise _refused(response, Reason.BLOCKED.value, message, ErrorType.BLOCKED)
    if status >= 300:
        raise _refused(response, REFUSED, f"{where} refused the page ({status}).", ErrorType.HTTP)


def is_page(response: Response) -> bool:
    """Return whether an answer is text that can be read as a page."""
    kind = (header(response, "content-type") or "").lower()
    return not is_binary(response.body, kind) and (not kind or any(known in kind for known in _TEXTUAL))


def header(response: Response, name: str) -> str | None:
    """Return a header by its name in lower case."""
    return next((value for key, value in response.headers.items() if key.lower() == name), None)


def place_of(response: Response) -> str:
    """Return host and path, without the query."""
    parts = urlsplit(response.url)
    return f"{parts.hostname or 'The site'}{parts.path}"[:200]


def facts_of(response: Response) -> dict[str, int]:
    return {"api_status": response.status, "api_ms": response.elapsed_ms, "rendered": int(response.rendered)}


def _refused(response: Response, reason: str, message: str, error_type: ErrorType) -> Permanent:
    evidence, facts = response.evidence(), facts_of(response)
    return Permanent(message, evidence=evidence, cost=1, facts=facts, reason=reason, error_type=error_type)
