"""One fetcher for both ways: plain HTTP, or a browser. Which one is the request's word; `auto` is the engine's."""

from forager.core.http import Fetch, Request, Response


class Fetcher:
    """Implements `core.http.Fetch` over the two. `auto` must never arrive here: each of its requests is paid for."""

    def __init__(self, http: Fetch, browser: Fetch) -> None:
        self._http = http
        self._browser = browser

    async def __call__(self, request: Request) -> Response:
        match request.render:
            case "http":
                return await self._http(request)
            case "browser":
                return await self._browser(request)
            case "auto":
                raise ValueError(
                    "`auto` is two requests, http and then browser: whoever sends them decides on the second."
                )
