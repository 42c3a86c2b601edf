"""Requests and responses as values, and `Fetch`, the one capability that a step has.

A request says what to send, never how: guarding, pacing, proxying and secrets are the fetcher's. Nothing here does I/O.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from operator import attrgetter
from typing import Any, Literal, Protocol

import orjson

from forager.core.errors import Evidence, Permanent
from forager.core.reasons import ErrorType
from forager.core.secret import Secret
from forager.core.visit import Action

Render = Literal["http", "browser", "auto"]
"""`auto`: plain HTTP first, a browser when the page turns out to need one. Each of the two is paid for."""
Looks = Literal["page", "empty_shell", "challenge", "block"]
"""What an answer is at first sight: a page; one that only scripts would fill; a test whether we are a browser; a no."""
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
    """Names whose log-in a page is asked with; it is looked up at the moment of sending."""

    workspace: str
    provider: str


@dataclass(frozen=True, slots=True)
class Cookie:
    """A part of a log-in. It goes to its own domain and the hosts in it, and nowhere else."""

    name: str
    value: Secret
    domain: str
    secure: bool = True
    """Never without TLS."""

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
    """Its headers are made when it is sent. What is signed is meant for one receiver: such a request follows nobody."""
    login: LoginRef | None = None
    """Asked as somebody, if there is a backend that keeps log-ins; else as nobody."""
    timeout: float = 30.0
    max_bytes: int = 32 * 1024 * 1024
    max_redirects: int = 5
    render: Render = "http"
    script: tuple[Action, ...] = ()
    """What a browser does after it has gone to the URL; nothing of it happens by plain HTTP."""
    keep: bool | Literal["bytes"] = False
    """Store the answer before the step goes on: `Response.blob` is then the URL by which it can be read again.
    `bytes`: store the body and its type without its address, so that the same file of two addresses is stored once."""

    # ── filled in by the lane, never by a step ──
    site: bool = False
    """A web site, not an API: its answer is looked at (`Response.looks`), and a proxy may be used."""
    proxy: int | None = None
    """The proxy to go through, by its number in the ledger."""
    block: frozenset[str] = frozenset()
    """What a browser does not load: image, font, media, stylesheet."""
    delay: tuple[float, float] | None = None
    """Seconds between two actions of a visit: a random number from this range, which is the lane's."""
    cookies: tuple[Cookie, ...] = ()
    """Of the log-in, filled in when it is looked up."""
    job_secret: Secret | None = None
    """The value of `auth` where that names a secret of the job."""
    on_leave: Callable[[], None] | None = None
    """Called when the request leaves us, for each hop: a lane counts by that, not by when it was asked for."""
    on_hop: Callable[[str], Awaitable[None]] | None = None
    """Awaited with the URL of a redirect's target before it is asked: every hop is charged to its own lane."""

    def telling(self, on_leave: Callable[[], None]) -> "Request":
        """The same request, told of when it leaves. `dataclasses.replace` takes three times as long."""
        values: tuple[Any, ...] = (*_BUT_CALLS(self), on_leave, self.on_hop)
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
"""All but the last two, `on_leave` and `on_hop`."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whole. It carries its time, because a step has no clock of its own."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    at: datetime
    elapsed_ms: int
    looks: Looks = "page"
    rendered: bool = False
    """By a browser: then the body is the page as its scripts left it."""
    console: tuple[str, ...] = ()
    """What a rendered page complained about."""
    screenshot: bytes | None = None
    blob: str | None = None
    """The `blob:` URL of the stored answer, if the request asked to keep it or was such a URL itself."""

    def json(self) -> Any:
        """The decoded body; nonsense is permanent, with the body kept as evidence."""
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            where = self.url.partition("?")[0]  # a query may hold a key
            said = f"{where} answered with malformed JSON: {error}"
            raise Permanent(said, evidence=self.evidence(), error_type=ErrorType.PARSE) from error

    def retry_after(self) -> float | None:
        """Seconds to wait, from either form of `Retry-After`; None when there is none, or nonsense."""
        said = next((value.strip() for name, value in self.headers.items() if name.lower() == "retry-after"), "")
        if not said:
            return None
        seconds = _SECONDS.fullmatch(said)
        if seconds:  # more digits than anybody waits are cut, not taken for nonsense: it was a no
            return float(seconds[1] + (seconds[2] or ""))
        try:
            until = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return None
        return max(0.0, ((until if until.tzinfo else until.replace(tzinfo=UTC)) - self.at).total_seconds())

    def evidence(self) -> Evidence:
        return Evidence(self.body, self.headers.get("Content-Type", "application/octet-stream"), self.screenshot)


class Fetch(Protocol):
    """Sends one request, already guarded and paced. Raises `Transient` or `Permanent`; never retries by itself."""

    async def __call__(self, request: Request) -> Response: ...
