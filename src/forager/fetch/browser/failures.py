"""Translates a browser's errors to ours. Its texts are never shown, because they contain whole URLs.

the guard                                                   → Refused
the proxy                                                   → ProxyFailed
time-out                                                    → TimedOut
no connection, dropped, not HTTP, does not resolve          → Transient
certificate, a scheme or a port it will not open, a file    → Permanent
the browser or the page's process died                      → BrowserCrashed
"""

import contextlib
import re
from collections.abc import Awaitable

from forager.core.errors import BrowserCrashed, ForagerError, Permanent, Refused, Transient
from forager.core.reasons import ErrorType, Reason

_NET = re.compile(r"net::ERR_([A-Z0-9_]+)")
_ANSWERED = ("EMPTY", "INVALID_", "CONTENT_", "INCOMPLETE_", "RESPONSE_", "HTTP2_", "QUIC_")
NOT_A_PAGE = "not_a_page"
_DEAD = ("Target page, context or browser has been closed", "Target closed", "Connection closed", "Browser closed")

PERMANENT = {
    "UNSAFE_PORT": "its port is not for web pages",
    "UNKNOWN_URL_SCHEME": "its scheme is not one that is visited",
    "DISALLOWED_URL_SCHEME": "its scheme is not one that is visited",
    "INVALID_URL": "it is not a URL that a browser can open",
    "INVALID_REDIRECT": "it redirects to something that is not a URL",
    "UNSAFE_REDIRECT": "it redirects to something that may not be visited",
    "ABORTED": "it is a download or an empty answer, not a page; fetch it by plain HTTP",
}


def translated(error: Exception) -> ForagerError:
    """Return our error for a browser's error."""
    text = str(error)
    if code := _NET.search(text):
        return _net(code[1])
    if any(sign in text for sign in _DEAD):
        return BrowserCrashed("the browser died while it was on the page.")
    if "Page crashed" in text:
        return page_crashed()
    if "Download is starting" in text:
        message = "it is a download, not a page; fetch it by plain HTTP."
        return Permanent(message, reason=NOT_A_PAGE, error_type=ErrorType.PARSE)
    if "invalid URL" in text or "Cannot navigate" in text:
        return Permanent("it is not a URL that a browser can open.", error_type=ErrorType.VALIDATION)
    message = f"the visit failed ({type(error).__name__})."
    return Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)


def page_crashed() -> BrowserCrashed:
    return BrowserCrashed("the page's process died: out of memory, or a fault of the browser.")


def _net(code: str) -> ForagerError:
    words = code.replace("_", " ").lower()
    if code == "TOO_MANY_REDIRECTS":
        return Refused("it redirects without end.", reason=Reason.TOO_MANY_REDIRECTS)
    if code.startswith(("CERT_", "SSL_", "BAD_SSL", "ECH_")):
        message = f"its certificate or encryption is not trusted ({words})."
        return Permanent(message, reason=Reason.CERTIFICATE, error_type=ErrorType.NETWORK)
    if code in PERMANENT:
        reason = NOT_A_PAGE if code == "ABORTED" else Reason.EGRESS_REFUSED
        return Permanent(f"{PERMANENT[code]}.", reason=reason, error_type=ErrorType.VALIDATION)
    reason = Reason.BROKEN_ANSWER if code.startswith(_ANSWERED) else Reason.UNREACHABLE
    return Transient(f"the page could not be loaded ({words}).", maybe_done=code.startswith("EMPTY"), reason=reason)


async def quietly(work: Awaitable[object]) -> None:
    """Await a call, and ignore errors because the page or the browser is gone."""
    from playwright.async_api import Error

    with contextlib.suppress(Error):
        await work
