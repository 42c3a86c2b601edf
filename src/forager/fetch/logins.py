"""Logins for pages: cookies, each bound to a domain by the credential backend.

The backend must specify the domain of each cookie. The caller chooses the URL of a page, and a login must never be sent
to a host of the caller's choice.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import orjson
import structlog

from forager.core.clock import Clock
from forager.core.errors import CredentialsMissing, FieldError, Permanent, Rejected, Transient, Unconfigured
from forager.core.hosts import checked_host
from forager.core.http import Cookie, Fetch, LoginRef, Request, Response, SecretRef
from forager.core.secret import Secret
from forager.core.states import Reason

# Logins for sites, fetched from the credential backend and cached for minutes, only in memory.
#
# They must never be written anywhere: not to a log, an error or a task, nor kept as evidence of an unexpected answer.
# An error names the provider, the workspace and the backend's status, but nothing of its answer.


log = structlog.get_logger("forager.fetch")

SERVICE_KEY = "FORAGER_BACKEND_SERVICE_KEY"
TTL = 300.0
RETRIES = 3
TIMEOUT = 10.0
MOST_BYTES = 256 * 1024
MOST_REMEMBERED = 10_000
_CREDENTIAL_NAME = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]{0,127}", re.ASCII)
"""Text that can be a segment of a path unchanged, and never refers to another folder."""

Key = tuple[str, str]
"""(workspace, provider)"""
Credentials = Mapping[str, Secret]
"""Such as user name and password, each a `Secret`."""


@dataclass(frozen=True, slots=True)
class _Known:
    credentials: Credentials
    at: float


class CredentialClient:
    """`fetch` sends requests to the backend, through the egress guard, and fills in the service key."""

    def __init__(
        self, fetch: Fetch, clock: Clock, base_url: str | None, *, ttl: float = TTL, retries: int = RETRIES
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._base_url = None if base_url is None else safe_url(base_url)
        self._ttl = ttl
        self._retries = retries
        self._known: dict[Key, _Known] = {}
        self._asking: dict[Key, asyncio.Task[Credentials]] = {}
        self.refusal: str | None = None
        """Why the backend refuses our own key; None while it does not."""

    async def get(self, workspace: str, provider: str) -> Credentials:
        """Return credentials from the cache, or fetch them from the backend; concurrent callers share one request.

        Raises `CredentialsMissing` or, if the backend does not answer, `Transient`. A key of ours that is missing or
        refused is also `CredentialsMissing`: the caller waits for an answer, and only an operator can help.
        """
        key = (workspace, provider)
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() - known.at < self._ttl:
            return known.credentials
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask(key))
            asking.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(asking)

    def forget(self, workspace: str, provider: str) -> None:
        """Remove refused credentials from the cache, so that the next caller fetches them again."""
        self._known.pop((workspace, provider), None)
        self._asking.pop((workspace, provider), None)

    def _asked(self, key: Key, done: asyncio.Task[Credentials]) -> None:
        if self._asking.get(key) is done:
            del self._asking[key]
        if not done.cancelled():
            done.exception()  # waiting callers get it; mark the exception as retrieved for everyone else

    async def _ask(self, key: Key) -> Credentials:
        request = self._request(*key)
        me = asyncio.current_task()
        for tried in range(self._retries + 1):
            try:
                credentials = _read(key, await self._answer(request))
            except Transient:
                if tried == self._retries:
                    raise
                await self._clock.sleep(2.0**tried)
            else:
                if self._asking.get(key) is me:  # forgotten meanwhile: the answer may be the refused one
                    self._remember(key, credentials)
                return credentials
        raise AssertionError("unreachable")

    async def _answer(self, request: Request) -> Response:
        """Send a request. Logs once that the backend refuses our key, and once that it accepts it again."""
        try:
            response = await self._fetch(request)
        except Unconfigured as error:  # the key is not set, or no header can hold it
            raise self._refused(error.message) from None
        if response.status in (401, 403):
            why = f"The credential backend refuses our key ({response.status})."
            raise self._refused(f"{why} Correct {SERVICE_KEY} and restart Forager.")
        if self.refusal is not None:
            self.refusal = None
            log.info("key_accepted", service="credential backend", setting=SERVICE_KEY)
        return response

    def _refused(self, why: str) -> CredentialsMissing:
        if self.refusal is None:
            log.error("key_refused", service="credential backend", setting=SERVICE_KEY, error=why)
        self.refusal = why
        return CredentialsMissing(why, reason=Reason.KEY_REFUSED)

    def _request(self, workspace: str, provider: str) -> Request:
        if self._base_url is None:
            raise CredentialsMissing(
                f"No login for {provider}: no backend is set. Set FORAGER_BACKEND_API_URL and restart."
            )
        for name, value in (("workspace", workspace), ("provider", provider)):
            if not _CREDENTIAL_NAME.fullmatch(value):
                raise CredentialsMissing(f"This is not a valid name of a {name} in the backend.")
        return Request(
            f"{self._base_url}/workspaces/{workspace}/credentials/{provider}",
            headers={"Accept": "application/json"},
            auth=SecretRef(SERVICE_KEY, header="X-Service-Key"),
            timeout=TIMEOUT,
            max_bytes=MOST_BYTES,
            max_redirects=0,
        )

    def _remember(self, key: Key, credentials: Credentials) -> None:
        now = self._clock.monotonic()
        if len(self._known) >= MOST_REMEMBERED:
            self._known = {k: v for k, v in self._known.items() if now - v.at < self._ttl}
            if len(self._known) >= MOST_REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[key] = _Known(credentials, now)


def _read(key: Key, response: Response) -> Credentials:
    workspace, provider = key
    about = f"{provider} in workspace {workspace}"
    status = response.status
    if status == 404:
        raise CredentialsMissing(f"The backend has no credentials for {about}. Add them there, and try again.")
    if status == 429 or status >= 500:
        raise Transient(f"The backend answered {status} to the request for {about}.")
    if status != 200:
        raise Permanent(f"The backend answered {status} to the request for {about}.")
    try:
        answer = orjson.loads(response.body)
    except ValueError:  # without its cause, which may quote the answer
        raise Permanent(f"The backend's answer about {about} is not JSON.") from None
    if isinstance(answer, dict) and isinstance(answer.get("data"), dict):
        answer = answer["data"]  # in an envelope like our own
    if not isinstance(answer, dict) or not answer:
        raise Permanent(f"The backend's answer about {about} is not an object with credentials.")
    return {str(name): Secret(_text(value)) for name, value in answer.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def safe_url(base_url: str) -> str:
    """Raise unless the URL is https or points to this machine: secrets must not be sent in clear text."""
    parts = urlsplit(base_url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_this_machine(parts.hostname or "")):
        return base_url.rstrip("/")
    problem = "it should begin with https://; http:// is accepted for this machine alone, such as http://127.0.0.1:8000"
    raise Rejected(f"FORAGER_BACKEND_API_URL: {problem}.", fields=[FieldError("FORAGER_BACKEND_API_URL", problem)])


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


COOKIES = "cookies"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}", re.ASCII)
_VALUE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e\"]{1,4096}", re.ASCII)
"""Cookie values as in RFC 6265, including the quotes that some put around a value."""


class Logins:
    def __init__(self, client: CredentialClient) -> None:
        self._client = client

    @property
    def refusal(self) -> str | None:
        """Why the backend refuses our own key; None while it does not."""
        return self._client.refusal

    async def __call__(self, login: LoginRef) -> tuple[Cookie, ...]:
        """Return the cookies of a login. Raises `CredentialsMissing`, also if the backend does not answer, which is not
        the site's fault."""
        try:
            credentials = await self._client.get(login.workspace, login.provider)
        except Transient as error:
            raise CredentialsMissing(f"The login for {login.provider} is not available now: {error.message}") from None
        return cookies_of(credentials, login)


def cookies_of(credentials: Credentials, login: LoginRef) -> tuple[Cookie, ...]:
    """Read the cookies of a backend's answer: a list of {name, value, domain}, with secure: false for a cookie that may
    be sent without TLS."""
    kept = credentials.get(COOKIES)
    listed = _listed(kept.reveal()) if kept is not None else []
    cookies = [_cookie(each) for each in listed]
    if not cookies or None in cookies:
        raise CredentialsMissing(
            f"The login in the backend for {login.provider} in workspace {login.workspace} has no `cookies` that can be"
            " used: a list of objects with name, value and domain."
        )
    return tuple(each for each in cookies if each is not None)


def _listed(text: str) -> list[Any]:
    try:
        decoded = orjson.loads(text)
    except ValueError:
        return []
    return decoded if isinstance(decoded, list) else []


def _cookie(entry: Any) -> Cookie | None:
    if not isinstance(entry, dict):
        return None
    name, value, domain = (entry.get(key) for key in ("name", "value", "domain"))
    if not (isinstance(name, str) and isinstance(value, str) and isinstance(domain, str)):
        return None
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        return None
    host = _domain(domain.removeprefix("."))
    return None if host is None else Cookie(name, Secret(value), host, secure=entry.get("secure") is not False)


def _domain(text: str) -> str | None:
    """Check a cookie's domain: a host, or a domain of at least two labels. `com` is refused."""
    try:
        host = checked_host(text)
    except ValueError:
        return None
    return host if "." in host and ":" not in host else None
