"""One fetcher for both ways: plain HTTP, or a browser. Which one is the request's word; `auto` is the engine's."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from forager.core.http import Cookie, Fetch, LoginRef, Request, Response

Logins = Callable[[LoginRef], Awaitable[tuple[Cookie, ...]]]


class Fetcher:
    """Implements `core.http.Fetch` over the two. `auto` must never arrive here: each of its requests is paid for.

    `logins` looks a log-in up; without it every page is asked as nobody.
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
                    "`auto` is two requests, http and then browser: whoever sends them decides on the second."
                )
