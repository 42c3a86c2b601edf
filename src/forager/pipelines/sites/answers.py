"""Classify answers that are not pages: retry, fail, or leave out. Pure."""

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
    status, where = response.status, response.subject()
    if status >= 500:
        message = f"{where} failed ({status})."
        raise Transient(message, facts=response.facts(), reason=Reason.SERVER_ERROR, error_type=ErrorType.HTTP)
    if response.looks in ("block", "challenge"):
        message = f"{where} blocked the request as a bot ({status}). Slow the lane down, or use other proxies."
        raise _refused(response, Reason.BLOCKED.value, message, ErrorType.BLOCKED)
    if status >= 300:
        raise _refused(response, REFUSED, f"{where} refused the page ({status}).", ErrorType.HTTP)


def is_page(response: Response) -> bool:
    """Return whether an answer is text that can be read as a page."""
    kind = (response.header("content-type") or "").lower()
    return not is_binary(response.body, kind) and (not kind or any(known in kind for known in _TEXTUAL))


def _refused(response: Response, reason: str, message: str, error_type: ErrorType) -> Permanent:
    evidence, facts = response.evidence(), response.facts()
    return Permanent(message, evidence=evidence, cost=1, facts=facts, reason=reason, error_type=error_type)
