"""Combines the HTTP fetcher and the browser fetcher; `render` in the request selects one. The engine handles `auto`."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from forager.core.http import Cookie, Fetch, LoginRef, Request, Response

Logins = Callable[[LoginRef], Awaitable[tuple[Cookie, ...]]]


class Fetcher:
    """Implements `core.http.Fetch` over both. `auto` must never arrive here, because each of its two requests counts
    separately.

    `logins` looks up a login; without it, every page is requested anonymously.
    """

    def __init__(self, http: Fetch, browser: Fetch, logins: Logins | None = None) -> None:
        self._http = http
        self._browser = browser
        self._logins = logins

    async def __call__(self, request: Request) -> Response:
        if request.login is not None and self._logins is not None:
            request = replace(request, cookies=await self._logins(request.login))
        match request.render:
            case "http":
                return await self._http(request)
            case "browser":
                return await self._browser(request)
            case "auto":
                raise ValueError(
                    "`auto` is two requests, http and then browser: the caller must send each of them itself."
                )
