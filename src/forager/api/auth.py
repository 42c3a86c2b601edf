"""Authentication: a request needs the service key in the header `X-Service-Key`. The few routes that are open without
it are listed by name.

An address bar cannot send that header, so the documents also take the key as the password of HTTP Basic. No other
route does: a browser attaches a stored password to requests that a foreign page triggers, so a route that changes
something must not accept it. A page gets a ticket instead, which it sends in the header `X-Page-Ticket`: a foreign page
can neither read it nor send the header. The ticket of `/demo` opens only the routes that this page calls, that of
`/docs`, whose forms try every route, opens all of them; both for twelve hours.

A browser that has signed in to the dashboard has a session instead: a signed cookie that no script can read and no
other site can send (`SameSite=Strict`). It opens every route for reading; a write also needs the session's CSRF token
in the header `X-CSRF-Token`. A new service key ends all sessions.

There may be further, named keys with a role (`api/key_gate.py`). Tickets and sessions name the key that they were given
to, so that they have its role, and end with it.

The check runs before anything else of the request is read. The key is compared in constant time and never logged or
echoed.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Literal, NamedTuple

from starlette.responses import Response
from starlette.types import Scope

from forager.ledger.tables.api_keys import ID_LENGTH, RESERVED_NAME, Role, StoredKey
from forager.sdk.http.envelope import refusal

HEADER = b"x-service-key"
OPEN_PATHS = frozenset({"/health", "/readiness", "/metrics"})
OPEN_PREFIX = "/dashboard/"
"""The files of the dashboard, which hold no data, and its sign-in, which checks the key itself."""
COOKIE = "forager_session"
CSRF_HEADER = b"x-csrf-token"
SESSION_SECONDS = 12 * 3600
LINK_SECONDS = 300
MOST_LINKS = 100
TICKET_HEADER = b"x-page-ticket"
DOCUMENTS = frozenset({"/", "/docs", "/docs/plain", "/openapi.json", "/demo", "/llms.txt", "/llms-full.txt"})
AGENTS = "/mcp"
"""Clients of MCP send a key as a bearer token. No browser does that by itself, so a foreign page cannot."""
TICKET_PATHS = ("/api/v1/review-fetch", "/api/v1/demo/stream/")
TICKET_SECONDS = 12 * 3600
Page = Literal["demo", "docs"]
ASK_A_BROWSER = 'Basic realm="Forager: any name, the service key as the password", charset="UTF-8"'
WHERE = "It is in service.key in the data folder."
MISSING = f"Send the service key in the header X-Service-Key. {WHERE}"


class KeyOwner(NamedTuple):
    """Whose key a request was made with."""

    name: str
    role: Role
    id: str
    """The beginning of the hash of a named key; `service` for the service key."""


class BrowserSession(NamedTuple):
    """A browser that has signed in."""

    name: str
    role: Role
    csrf: str


SERVICE = KeyOwner(RESERVED_NAME, "admin", "service")


class ServiceKey:
    """The key that callers must send, and the named keys. Replacing or revoking one also ends the event
    streams that were opened with it."""

    def __init__(self, key: str) -> None:
        self._named: dict[str, KeyOwner] = {}
        """Named keys by their hash …"""
        self._by_id: dict[str, KeyOwner] = {SERVICE.id: SERVICE}
        """… and all keys by their id."""
        self.replace(key)

    def know(self, keys: Iterable[StoredKey]) -> None:
        """Take over the named keys that are stored now. Those that are missing are refused from now on."""
        self._named = {key.hash: KeyOwner(key.name, key.role, key.hash[:ID_LENGTH]) for key in keys}
        self._by_id = {caller.id: caller for caller in (SERVICE, *self._named.values())}

    def replace(self, key: str) -> None:
        if not key:
            raise ValueError("an empty service key would admit every caller")
        self._key = key.encode()
        self._links: dict[str, float] = {}

    def owner(self, sent: bytes) -> KeyOwner | None:
        """Return whose key this is. The service key is compared in constant time, a named key is found by its hash."""
        if hmac.compare_digest(sent, self._key):
            return SERVICE
        return self._named.get(hashlib.sha256(sent).hexdigest())

    @property
    def current(self) -> str:
        """The key, for requests that this process makes to itself."""
        return self._key.decode()

    def new_session(self, caller: KeyOwner) -> str:
        """Return the value of a session's cookie."""
        return self._new_pass("session", caller, SESSION_SECONDS)

    def session(self, scope: Scope) -> BrowserSession | None:
        """Return the session of a request's cookie; None if there is none, it has expired, or its key is revoked."""
        cookie = _cookie(scope)
        caller = self._pass_owner("session", cookie)
        return caller and BrowserSession(caller.name, caller.role, self._sign("csrf", cookie))

    def _new_pass(self, purpose: str, caller: KeyOwner, seconds: int) -> str:
        """Return `expiry.nonce.key.signature`."""
        text = f"{int(time.time()) + seconds}.{secrets.token_urlsafe(12)}.{caller.id}"
        return f"{text}.{self._sign(purpose, text)}"

    def _pass_owner(self, purpose: str, sent: str) -> KeyOwner | None:
        text, _, signature = sent.rpartition(".")
        parts = text.split(".")
        if len(parts) != 3 or not hmac.compare_digest(signature.encode(), self._sign(purpose, text).encode()):
            return None
        return self._by_id.get(parts[2]) if int(parts[0]) >= time.time() else None

    def new_link(self) -> str:
        """Return a code that signs a browser in once, within five minutes."""
        now = time.monotonic()
        self._links = {code: until for code, until in self._links.items() if until > now}
        if len(self._links) >= MOST_LINKS:
            self._links.clear()
        code = secrets.token_urlsafe(24)
        self._links[code] = now + LINK_SECONDS
        return code

    def use_link(self, code: str) -> bool:
        """Return whether the code is valid, and make it invalid."""
        return self._links.pop(code, 0.0) > time.monotonic()

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose} {text}".encode(), "sha256").hexdigest()

    def _session_owner(self, scope: Scope) -> KeyOwner | None:
        cookie = _cookie(scope)
        caller = self._pass_owner("session", cookie)
        if caller is None or scope["method"] in {"GET", "HEAD"}:
            return caller
        sent = [value for name, value in scope["headers"] if name == CSRF_HEADER]
        return caller if len(sent) == 1 and hmac.compare_digest(sent[0], self._sign("csrf", cookie).encode()) else None

    def accepts(self, scope: Scope) -> bool:
        """Return whether a request may be answered, whatever its role."""
        return self.caller(scope) is not None

    def caller(self, scope: Scope) -> KeyOwner | None:
        """Return whose key a request has. There must be exactly one such header: two are refused, because a proxy in
        front may have checked only one of them."""
        sent = [value for name, value in scope["headers"] if name == HEADER]
        if not sent and _is_for_a_document(scope):
            sent = _passwords(scope)
        if not sent and scope["path"] == AGENTS:
            sent = _tokens(scope)
        if not sent:
            pages: tuple[Page, ...] = ("demo", "docs") if scope["path"].startswith(TICKET_PATHS) else ("docs",)
            tickets = [value for name, value in scope["headers"] if name == TICKET_HEADER]
            return self._ticket_owner(tickets, pages) or self._session_owner(scope)
        return self.owner(sent[0]) if len(sent) == 1 else None

    def sent(self, scope: Scope) -> str | None:
        """Return the key that an agent's request was made with; None if it was made with a session of a browser."""
        sent = [value for name, value in scope["headers"] if name == HEADER] or _tokens(scope)
        return sent[0].decode("latin-1") if len(sent) == 1 else None

    def ticket(self, page: Page = "demo", scope: Scope | None = None) -> str:
        """Return a ticket for the page that is being served to the sender of this request. It has the role of that
        sender's key, and ends with it."""
        caller = SERVICE if scope is None else self.caller(scope) or SERVICE
        return self._new_pass(f"page ticket {page}", caller, TICKET_SECONDS)

    def _ticket_owner(self, sent: list[bytes], pages: tuple[Page, ...]) -> KeyOwner | None:
        ticket = sent[0].decode("latin-1") if len(sent) == 1 else ""
        owners = (self._pass_owner(f"page ticket {page}", ticket) for page in pages)
        return next((owner for owner in owners if owner is not None), None)


def denied(scope: Scope) -> Response:
    if _is_for_a_document(scope):
        message = f"Send the service key in the header X-Service-Key, or as the password with any user name. {WHERE}"
        return refusal(scope, 401, "unauthorized", message, headers={"WWW-Authenticate": ASK_A_BROWSER})
    wrong = any(name == HEADER for name, _ in scope["headers"])
    message = f"The service key in X-Service-Key is wrong. {WHERE}" if wrong else MISSING
    return refusal(scope, 401, "unauthorized", message, headers={"WWW-Authenticate": "X-Service-Key"})


def _is_for_a_document(scope: Scope) -> bool:
    return scope["path"] in DOCUMENTS and scope["method"] == "GET"


def _cookie(scope: Scope) -> str:
    try:
        sent = [
            SimpleCookie(value.decode("latin-1")).get(COOKIE) for name, value in scope["headers"] if name == b"cookie"
        ]
    except CookieError:
        return ""
    found = [morsel.value for morsel in sent if morsel is not None]
    return found[0] if len(found) == 1 else ""


def _passwords(scope: Scope) -> list[bytes]:
    """Return the password of each HTTP Basic header. A malformed header counts as an empty password, which is never the
    key."""
    return [_password(value) for name, value in scope["headers"] if name == b"authorization"]


def _tokens(scope: Scope) -> list[bytes]:
    """Return the bearer token of each header."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return [value[7:].strip() if value[:7].lower() == b"bearer " else b"" for value in values]


def _password(sent: bytes) -> bytes:
    scheme, _, credentials = sent.partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(credentials.strip(), validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
