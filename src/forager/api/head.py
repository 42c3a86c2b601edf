"""`HEAD` wherever there is a `GET`: the same status and headers, without the body."""

import asyncio
import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """Runs the GET route and ends the response after its headers, because a stream would never end by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def headers_alone(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                begun.set()

        answering = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, headers_alone))
        waiting = asyncio.ensure_future(begun.wait())
        await asyncio.wait([answering, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if answering.done():
            answering.result()
            return
        answering.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await answering
