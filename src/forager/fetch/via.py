"""Sends a request through an unblocking service: one that fetches a page for us, past bot walls, for money.

The service is an HTTP API that gets the address of the page in a query and answers with the page. Every request is
paid for before it is sent, within the caps of the day and the month; an answer that the service does not charge is paid
back. It must never be given a login, a session, a header or a body of ours: all of them would reach a third party.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import quote, urlsplit

from forager.core.errors import FieldError, Permanent, Refused, Rejected, Unconfigured, Unreachable
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request, Response, SecretRef
from forager.core.states import Reason
from forager.fetch.guard import EgressGuard
from forager.fetch.page_classifier import looks

API_KEY = "FORAGER_VIA_API_KEY"
"""The name of the secret, not the secret."""
URL_MARK, KEY_MARK = "{url}", "{key}"
FINAL_URL = ("x-final-url", "zr-final-url", "spb-resolved-url", "sa-final-url")
"""Response headers with the address of the page after redirects, by the names that services use."""
MOST_UNITS = 10_000
MISSING = (
    "This site is to be reached through an unblocking service, and none is configured. Set FORAGER_VIA_URL,"
    " FORAGER_VIA_PRICE and FORAGER_VIA_MAX_USD_DAY or FORAGER_VIA_MAX_USD_MONTH, or: forager lanes set {} --no-via"
)


def checked_template(text: str) -> str:
    """Return the address of a service. Raises `Rejected`, which does not show it, if it cannot be one."""
    parts = urlsplit(text.replace(URL_MARK, "").replace(KEY_MARK, ""))
    if parts.scheme not in ("http", "https") or not parts.hostname or text.count(URL_MARK) != 1 or "@" in parts.netloc:
        problem = "should be a URL with {url} once, as https://api.service.example/v1/?key={key}&url={url}"
        raise Rejected(f"FORAGER_VIA_URL {problem}.", fields=[FieldError("via_url", problem)])
    return text


class Purse(Protocol):
    """Counts what the service costs, in units of its price, over all processes."""

    async def take(self, units: int = 1) -> None:
        """Pay before a request is sent. Raises `Capped` if a cap does not leave the money."""
        ...

    async def correct(self, units: int) -> None:
        """Add what a request cost beyond what was paid; a negative number pays back."""
        ...


@dataclass(frozen=True, slots=True)
class ViaService:
    """An unblocking service. `template` is its address with `{url}`, and `{key}` where it wants its key in the address
    (otherwise the key is sent as a bearer token)."""

    template: str
    key: str | None
    timeout: float
    purse: Purse
    cost_header: str | None = None
    """Header of an answer with the number of units that the request cost; None: always one."""

    def address(self, url: str) -> str:
        filled = self.template.replace(URL_MARK, quote(url, safe=""))
        return filled.replace(KEY_MARK, quote(self.key or "", safe=""))


class ViaFetcher:
    """Implements `core.http.Fetch` for requests whose lane goes through the service. `http` sends them."""

    def __init__(self, http: Fetch, guard: EgressGuard, service: ViaService | None) -> None:
        self._http = http
        self._guard = guard
        self._service = service

    async def __call__(self, request: Request) -> Response:
        """Fetch a page through the service. The answer has the address of the page, never that of the service."""
        self._guard.check_url(request.url)
        service = self._service
        if service is None:
            raise Unconfigured(MISSING.format(host_of(request.url)))
        _check(request)
        await service.purse.take()
        owed = 1
        try:
            response = await self._http(_asked(service, request))
        except (Unreachable, Refused):
            owed = 0  # nothing was sent
            raise
        else:
            owed = _units(service, response)
        finally:
            # Also if the task is cancelled meanwhile: what an answer cost is known only now.
            if owed != 1:
                await asyncio.shield(service.purse.correct(owed - 1))
        _refuse_unless_served(response)
        return self._of_page(service, request, response)

    def _of_page(self, service: ViaService, request: Request, response: Response) -> Response:
        body = response.body
        if service.key is not None and len(service.key) >= 8:
            body = body.replace(service.key.encode(), b"***")
        headers = {
            name: value
            for name, value in response.headers.items()
            if name.lower() not in ("set-cookie", "etag", "last-modified")
            and (service.key is None or service.key not in value)
        }
        kind = looks(response.status, response.headers, body) if request.site else "page"
        return replace(response, url=self._final(request, response), headers=headers, body=body, looks=kind)

    def _final(self, request: Request, response: Response) -> str:
        """Return the address of the page after redirects, as the service reports it, if Forager itself would request
        that one."""
        told = next((value for name, value in response.headers.items() if name.lower() in FINAL_URL), None)
        if not told:
            return request.url
        try:
            return str(self._guard.check_url(told))
        except (Refused, Permanent, ValueError):
            return request.url


def _asked(service: ViaService, request: Request) -> Request:
    bearer = service.key is not None and KEY_MARK not in service.template
    return Request(
        service.address(request.url),
        auth=SecretRef(API_KEY, prefix="Bearer ") if bearer else None,
        timeout=max(request.timeout, service.timeout),
        max_bytes=request.max_bytes,
        max_redirects=0,
        on_leave=request.on_leave,
    )


def _check(request: Request) -> None:
    """Refuse what must not reach a third party, or what the service cannot do, instead of dropping it silently."""
    host = host_of(request.url)
    no_via = f"To do it without the service: forager lanes set {host} --no-via"
    if request.login is not None or request.cookies or request.session is not None:
        raise Refused(f"{host} is reached through an unblocking service, which gets no login and no session. {no_via}")
    if request.method.upper() != "GET" or request.body is not None or request.auth or request.sign:
        raise Refused(f"{host} is reached through an unblocking service, which only fetches pages. {no_via}")
    if request.render == "browser" and request.script:
        raise Refused(
            f"{host} is reached through an unblocking service, which does no actions and takes no pictures. {no_via}"
        )


def _units(service: ViaService, response: Response) -> int:
    """Return the cost of an answer in units: the value of its cost header; none for a refusal or a failure of the
    service."""
    if service.cost_header is not None:
        wanted = service.cost_header.lower()
        told = next((value.strip() for name, value in response.headers.items() if name.lower() == wanted), "")
        if told.isascii() and told.isdigit():
            return min(int(told[:9]), MOST_UNITS)
    return 0 if response.status in (401, 402, 429) or response.status >= 500 else 1


def _refuse_unless_served(response: Response) -> None:
    if response.status == 401:
        raise Unconfigured(f"The unblocking service refused the key (401). Set {API_KEY} and resume the job.")
    if response.status == 402:
        raise Unconfigured("The account of the unblocking service has no credit left (402). Add some, and resume.")
    if 300 <= response.status < 400 and response.status != 304:
        raise Permanent(
            f"The unblocking service answered with a redirect ({response.status}). Correct FORAGER_VIA_URL.",
            reason=Reason.BROKEN_ANSWER,
        )
