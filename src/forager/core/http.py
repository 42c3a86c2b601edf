"""Requests and responses as values, and `Fetch`, the one capability that a step has.

A request specifies what to send; guarding, pacing, proxies and secrets are the fetcher's concern. Nothing here does
I/O.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from operator import attrgetter
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import orjson

from forager.core.errors import Evidence, Permanent
from forager.core.hosts import host_of
from forager.core.secret import Secret
from forager.core.states import ErrorType

# The script of a browser visit, as values. The request itself is the first step: loading the URL.


MOST_SCROLLS = 50


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait until an element matches the selector. With `must`, a page without one is a failure."""

    selector: str
    timeout: float = 10.0
    must: bool = False
    label: str = ""
    """The caller's name for this action. If set, a failure of the action is permanent, and its error contains the
    name."""


@dataclass(frozen=True, slots=True)
class WaitQuiet:
    """Wait until nothing has been loading for half a second. A page that never stops loading is taken as it is."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Scroll:
    """Scroll to the end of the page, and again while that makes it longer, at most this number of times."""

    times: int = 5


@dataclass(frozen=True, slots=True)
class Click:
    """Click an element, such as a consent button or "show more". A missing one is skipped, unless it `must` exist."""

    selector: str
    timeout: float = 2.0
    must: bool = False
    label: str = ""


@dataclass(frozen=True, slots=True)
class TypeText:
    """Replace the text of an input field."""

    selector: str
    text: str
    timeout: float = 5.0
    must: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True)
class PressKey:
    """Press a key, such as `Enter`, in an element, or wherever the page has its focus."""

    key: str
    selector: str | None = None
    timeout: float = 5.0
    must: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True)
class SelectOption:
    """Choose an entry of a drop-down list by its value or its text."""

    selector: str
    value: str
    timeout: float = 5.0
    must: bool = True
    label: str = ""


@dataclass(frozen=True, slots=True)
class Rest:
    """Do nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RunScript:
    """Run JavaScript in the page, with the rights of the page. Its value is not read."""

    script: str
    timeout: float = 5.0
    label: str = ""


@dataclass(frozen=True, slots=True)
class PrintPdf:
    """Print the page to a PDF file."""


@dataclass(frozen=True, slots=True)
class CaptureJson:
    """Collect the JSON that the page's scripts fetch during the visit. `match`: only from URLs that contain it."""

    match: str = ""
    most: int = 20


@dataclass(frozen=True, slots=True)
class Screenshot:
    """Take a PNG of the visible part, of the whole page, or of one element."""

    full_page: bool = False
    if_wrong: bool = False
    """Only if the page looks wrong: an error status, a login, a captcha, almost no text. A screenshot of every page
    would double the time of a visit."""
    selector: str | None = None
    label: str = ""


Action = (
    WaitFor
    | WaitQuiet
    | Scroll
    | Click
    | TypeText
    | PressKey
    | SelectOption
    | Rest
    | RunScript
    | PrintPdf
    | CaptureJson
    | Screenshot
)


Render = Literal["http", "browser", "auto"]
"""`auto`: plain HTTP first, then a browser if the page needs one. Each of the two requests counts."""
Looks = Literal["page", "empty_shell", "challenge", "block"]
"""Classification of an answer: a page; an empty shell that scripts would fill; a browser challenge; a block."""
_SECONDS = re.compile(r"([0-9]{1,9})[0-9]*(\.[0-9]+)?")


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Names a secret and the header it goes into; the value is filled in at the moment of sending."""

    name: str
    header: str = "Authorization"
    prefix: str = ""
    of_job: bool = False
    """A secret that was submitted with the task's own job, not one of the installation."""


@dataclass(frozen=True, slots=True)
class SignRef:
    """Names the secret that signs a message, and the message's id; signed at the moment of sending."""

    name: str
    id: str


@dataclass(frozen=True, slots=True)
class LoginRef:
    """Names the login with which a page is requested; it is looked up at the moment of sending."""

    workspace: str
    provider: str


@dataclass(frozen=True, slots=True)
class SessionRef:
    """Names the session in which a browser visits a page: its cookies and storage are kept from one visit to the
    next."""

    workspace: str
    name: str


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie of a login. It is sent only to its own domain and its subdomains."""

    name: str
    value: Secret
    domain: str
    secure: bool = True
    """True if the cookie must only be sent over TLS."""

    def belongs_to(self, host: str, scheme: str) -> bool:
        within = host == self.domain or host.endswith(f".{self.domain}")
        return within and (scheme == "https" or not self.secure)


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    auth: SecretRef | None = None
    sign: SignRef | None = None
    """Sign the request when it is sent. A signed request is for one receiver, so it follows no redirect."""
    login: LoginRef | None = None
    """Use the workspace's stored login if a credential backend is configured; otherwise send the request
    anonymously."""
    session: SessionRef | None = None
    """Visit the page in this session; for browsers only."""
    timeout: float = 30.0
    max_bytes: int = 32 * 1024 * 1024
    max_redirects: int = 5
    render: Render = "http"
    script: tuple[Action, ...] = ()
    """Actions of a browser after it has loaded the URL; ignored for plain HTTP."""
    keep: bool | Literal["bytes"] = False
    """Store the answer before the step continues: `Response.blob` is then the URL by which it can be read again.
    `bytes`: store the body and its type without its address, so that the same file of two addresses is stored once."""
    enough: Callable[["Response"], Awaitable[bool]] | None = field(default=None, compare=False, repr=False)
    """For `auto`: awaited with a page that shows nothing without scripts. If it returns True, because the data of the
    page have all that is wanted, no browser visits the page."""

    # ── filled in by the lane, never by a step ──
    site: bool = False
    """True if the target is a web site, not an API: its answer is classified (`Response.looks`), and a proxy may be
    used."""
    proxy: int | None = None
    """The proxy to go through, by its number in the ledger."""
    via: bool = False
    """Send the request through the unblocking service."""
    block: frozenset[str] = frozenset()
    """Resources that a browser does not load: image, font, media, stylesheet."""
    delay: tuple[float, float] | None = None
    """Seconds between two actions of a visit: a random number from this range, which is the lane's."""
    cookies: tuple[Cookie, ...] = ()
    """Cookies of the login, filled in when it is looked up."""
    state: Secret | None = None
    """Cookies and storage of the session as JSON, filled in when it is looked up; None for a new one."""
    job_secret: Secret | None = None
    """The value of `auth` if that names a secret of the job."""
    on_leave: Callable[[], None] | None = None
    """Called when the request is sent, for each hop: a lane counts by that moment."""
    on_hop: Callable[[str], Awaitable[None]] | None = None
    """Awaited with a redirect's target before it is requested: every hop counts in its own lane."""

    def telling(self, on_leave: Callable[[], None]) -> "Request":
        """Return a copy of the request with these callbacks. `dataclasses.replace` takes three times as long."""
        values: tuple[Any, ...] = (*_BUT_CALLS(self), on_leave, self.on_hop)
        return Request(*values)

    def to_site(
        self,
        proxy: int | None,
        block: frozenset[str],
        delay: tuple[float, float] | None,
        on_leave: Callable[[], None],
        on_hop: Callable[[str], Awaitable[None]],
        *,
        via: bool = False,
    ) -> "Request":
        """Return a copy of the request as the lane of a site sends it, faster than `dataclasses.replace` does."""
        values: tuple[Any, ...] = (
            *_BY_STEP(self), True, proxy, via, block, delay, self.cookies, self.state, self.job_secret, on_leave, on_hop
        )  # fmt: skip
        return Request(*values)

    @classmethod
    def post_json(
        cls, url: str, value: Any, *, auth: SecretRef | None = None, timeout: float = 30.0, max_redirects: int = 5
    ) -> "Request":
        return cls(
            url=url,
            method="POST",
            headers={"Content-Type": "application/json"},
            body=orjson.dumps(value),
            auth=auth,
            timeout=timeout,
            max_redirects=max_redirects,
        )


_BUT_CALLS = attrgetter(*[each.name for each in fields(Request)][:-2])
"""All fields of a request but the last two, the callbacks `on_leave` and `on_hop`."""
_BY_STEP = attrgetter(*[each.name for each in fields(Request)][:-10])
"""The fields that a step sets: all but the last ten, from `site` on."""


@dataclass(frozen=True, slots=True)
class CapturedJson:
    """A JSON answer that a page's script has fetched."""

    url: str
    method: str
    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """A complete answer. It carries its time, because a step has no clock."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    at: datetime
    elapsed_ms: int
    looks: Looks = "page"
    rendered: bool = False
    """True if a browser rendered it: the body is then the rendered page."""
    console: tuple[str, ...] = ()
    """Console errors of a rendered page."""
    screenshot: bytes | None = None
    pdf: bytes | None = None
    state: Secret | None = None
    """Cookies and storage of a session after the visit. The fetcher keeps it; no step gets it."""
    captured: tuple[CapturedJson, ...] = ()
    """JSON that the page's scripts fetched, in their order, if the script of the visit has `CaptureJson`."""
    blob: str | None = None
    """The `blob:` URL of the stored answer, if the request has `keep` or was for such a URL."""

    def stored_as(self, blob: str) -> "Response":
        """Return a copy with the `blob:` URL under which it is stored, faster than `dataclasses.replace` does."""
        values: tuple[Any, ...] = (*_BUT_BLOB(self), blob)
        return Response(*values)

    def header(self, name: str) -> str | None:
        """Return a header by its name in lower case; None if there is none."""
        return next((value for key, value in self.headers.items() if key.lower() == name), None)

    def subject(self) -> str:
        """Return host, port and path, for messages: a query may hold secrets."""
        return f"{host_of(self.url) or 'The site'}{urlsplit(self.url).path}"[:200]

    def facts(self) -> dict[str, int]:
        """Return the facts of a call to a site: status, duration, and whether a browser rendered the answer."""
        return {"api_status": self.status, "api_ms": self.elapsed_ms, "rendered": int(self.rendered)}

    def json(self) -> Any:
        """Return the decoded body. Raises `Permanent`, with the body as evidence, if it is not JSON."""
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            where = self.url.partition("?")[0]  # a query may hold a key
            message = f"{where} answered with malformed JSON: {error}"
            raise Permanent(message, evidence=self.evidence(), error_type=ErrorType.PARSE) from error

    def retry_after(self) -> float | None:
        """Return the seconds of a `Retry-After` header in either form; None if it is missing or invalid."""
        given = (self.header("retry-after") or "").strip()
        if not given:
            return None
        seconds = _SECONDS.fullmatch(given)
        if seconds:  # an absurdly long number is truncated, not ignored: the server did refuse
            return float(seconds[1] + (seconds[2] or ""))
        try:
            until = parsedate_to_datetime(given)
        except (ValueError, OverflowError):
            return None
        return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - self.at).total_seconds())

    def evidence(self) -> Evidence:
        return Evidence(self.body, self.headers.get("Content-Type", "application/octet-stream"), self.screenshot)


_BUT_BLOB = attrgetter(*[each.name for each in fields(Response)][:-1])


class Fetch(Protocol):
    """Sends one request, already guarded and paced. Raises `Transient` or `Permanent`; never retries by itself."""

    async def __call__(self, request: Request) -> Response: ...
