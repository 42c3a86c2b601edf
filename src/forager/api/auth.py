"""Authentication: a request needs the service key in the header `X-Service-Key`. The few routes that are open without
it are listed by name.

An address bar cannot send that header, so the documents also take the key as the password of HTTP Basic. No other
route does: a browser attaches a stored password to requests that a foreign page triggers, so a route that changes
something must not accept it. A page gets a ticket instead, which it sends in the header `X-Page-Ticket`: a foreign page
can neither read it nor send the header. The ticket of `/demo` opens only the routes that this page calls, that of
`/docs`, whose forms try every route, opens all of them; both for twelve hours.

The check runs before anything else of the request is read. The key is compared in constant time and never logged or
echoed.
"""

import base64
import binascii
import hmac
import time
from typing import Literal

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from forager.kit.http.envelope import refusal

HEADER = b"x-service-key"
OPEN_PATHS = frozenset({"/health", "/readiness", "/metrics"})
TICKET_HEADER = b"x-page-ticket"
DOCUMENTS = frozenset({"/", "/docs", "/openapi.json", "/demo"})
TICKET_PATHS = ("/api/v1/review-fetch", "/api/v1/demo/stream/")
TICKET_SECONDS = 12 * 3600
Page = Literal["demo", "docs"]
ASK_A_BROWSER = 'Basic realm="Forager: any name, the service key as the password", charset="UTF-8"'
WHERE = "It is in service.key in the data folder."
MISSING = f"Send the service key in the header X-Service-Key. {WHERE}"


class ServiceKey:
    """The key that callers must send. Replacing it also ends the event streams that were opened with the old one."""

    def __init__(self, key: str) -> None:
        self.replace(key)

    def replace(self, key: str) -> None:
        if not key:
            raise ValueError("an empty service key would admit every caller")
        self._key = key.encode()

    def accepts(self, scope: Scope) -> bool:
        """Return whether there is exactly one such header and it holds the key. Two headers are refused, because a
        proxy in front may have checked only one of them."""
        sent = [value for name, value in scope["headers"] if name == HEADER]
        if not sent and _is_for_a_document(scope):
            sent = _passwords(scope)
        if not sent:
            pages: tuple[Page, ...] = ("demo", "docs") if scope["path"].startswith(TICKET_PATHS) else ("docs",)
            return self._accepts_ticket([value for name, value in scope["headers"] if name == TICKET_HEADER], pages)
        return len(sent) == 1 and hmac.compare_digest(sent[0], self._key)

    def ticket(self, page: Page = "demo") -> str:
        """Return a ticket for the page that is being served: `expiry.signature`. A new service key ends it."""
        expires = int(time.time()) + TICKET_SECONDS
        return f"{expires}.{self._signature(page, expires)}"

    def _accepts_ticket(self, sent: list[bytes], pages: tuple[Page, ...]) -> bool:
        expires, _, signature = sent[0].partition(b".") if len(sent) == 1 else (b"", b"", b"")
        if not expires.isdigit() or len(expires) > 12 or int(expires) < time.time():
            return False
        return any(hmac.compare_digest(signature, self._signature(page, int(expires)).encode()) for page in pages)

    def _signature(self, page: Page, expires: int) -> str:
        return hmac.new(self._key, f"page ticket {page} {expires}".encode(), "sha256").hexdigest()


class KeyGate:
    def __init__(self, app: ASGIApp, key: ServiceKey) -> None:
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008, "reason": "Forager has no websockets."})
        elif scope["path"] in OPEN_PATHS or self._key.accepts(scope):
            await self._app(scope, receive, send)
        else:
            await _denied(scope)(scope, receive, send)


def _denied(scope: Scope) -> Response:
    if _is_for_a_document(scope):
        message = f"Send the service key in the header X-Service-Key, or as the password with any user name. {WHERE}"
        return refusal(scope, 401, "unauthorized", message, headers={"WWW-Authenticate": ASK_A_BROWSER})
    wrong = any(name == HEADER for name, _ in scope["headers"])
    message = f"The service key in X-Service-Key is wrong. {WHERE}" if wrong else MISSING
    return refusal(scope, 401, "unauthorized", message, headers={"WWW-Authenticate": "X-Service-Key"})


def _is_for_a_document(scope: Scope) -> bool:
    return scope["path"] in DOCUMENTS and scope["method"] == "GET"


def _passwords(scope: Scope) -> list[bytes]:
    """Return the password of each HTTP Basic header. A malformed header counts as an empty password, which is never the
    key."""
    return [_password(value) for name, value in scope["headers"] if name == b"authorization"]


def _password(sent: bytes) -> bytes:
    scheme, _, credentials = sent.partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
