"""Translates exceptions of libraries to ours; no other module does. An error must never show a query, a user name or a
secret.

time-out while waiting for the answer                     → TimedOut   (what it cost is unknown)
no connection                                             → Unreachable
dropped, incomplete, not HTTP                             → Transient  (the same call may succeed later)
certificate, a request that cannot be written             → Permanent
the guard, a cap                                          → Refused
"""

import asyncio
import os
import socket
from types import TracebackType

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from forager.core.errors import ForagerError, Permanent, Refused, TimedOut, Transient, Unreachable
from forager.core.reasons import ErrorType, Reason
from forager.fetch.connect import NotCleared

FOREIGN = (aiohttp.ClientError, OSError, asyncio.IncompleteReadError, ValueError, TypeError, RuntimeError)


class map_errors:  # noqa: N801  (reads as a word in a with statement, as contextlib's own do)
    """`with map_errors(request.url):` translates every exception to a `ForagerError` that names where it happened."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        self.url = url

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is None:
            return
        if isinstance(error, ForagerError):
            error.at(shown(self.url))
        elif isinstance(error, FOREIGN):
            # The cause is removed on purpose: messages of the client library contain whole URLs and header values.
            raise translated(error).at(shown(self.url)) from None


def translated(error: Exception) -> ForagerError:
    """Return our error for a library's exception. Once connected, the call may have been executed, and charged."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return Transient("no connection in time; nothing was sent.", reason=Reason.UNREACHABLE)
        case TimeoutError():
            return TimedOut("no complete answer in time.")
        case aiohttp.ClientConnectorCertificateError():
            message = f"its certificate is not trusted ({_reason(error.certificate_error)})."
            return Permanent(message, reason=Reason.CERTIFICATE, error_type=ErrorType.NETWORK)
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, NotCleared):
            return Refused(f"{error.os_error}.")
        case aiohttp.ClientConnectorError():
            return Unreachable(f"no connection ({_reason(error.os_error)}).")
        case aiohttp.ClientResponseError() if _caused_by(error, LineTooLong):
            return Refused("a line of its headers is too long, and was stopped.", reason=Reason.TOO_LARGE)
        case aiohttp.ClientResponseError():
            return Transient("the answer is not valid HTTP.", maybe_done=True, reason=Reason.BROKEN_ANSWER)
        case aiohttp.ClientPayloadError() | asyncio.IncompleteReadError():
            return Transient("the answer broke off.", maybe_done=True, reason=Reason.BROKEN_ANSWER)
        case aiohttp.InvalidURL() | ValueError() | TypeError():
            message = "the request cannot be written as HTTP (its URL or a header is malformed)."
            return Permanent(message, error_type=ErrorType.VALIDATION)
        case _:
            message = f"the connection was lost ({_reason(error)})."
            return Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)


def shown(url: str | URL) -> str:
    """Return a URL as it may appear in an error: without user, query and fragment, which can contain keys."""
    try:
        parsed = URL(url)
        text = str(parsed.with_user(None).with_query(None).with_fragment(None)) if parsed.host else parsed.scheme
    except (ValueError, UnicodeError):
        return "(unreadable URL)"
    return (text or "(no URL)")[:200]


def _reason(error: BaseException) -> str:
    """Return the operating system's message for a failure, or its type: never a library's own text."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0)  # asyncio puts the address where this message belongs
    return getattr(error, "strerror", None) or getattr(error, "verify_message", None) or type(error).__name__


def _caused_by(error: BaseException, kind: type[BaseException]) -> bool:
    cause = error.__cause__
    return cause is not None and (isinstance(cause, kind) or _caused_by(cause, kind))
