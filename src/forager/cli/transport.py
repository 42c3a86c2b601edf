"""How a request of a command reaches the API: over HTTP to a running Forager, or by a call in this process."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forager.cli.asgi import Application, call
from forager.kit.cli.client import Answer
from forager.kit.cli.errors import ApiUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiohttp

REQUEST_SECONDS = 60.0
PATIENCE = 20.0
"""How long a Forager that does not answer is asked again: its supervisor may be starting it anew."""
ASK_AGAIN_EVERY = 0.2


class HttpTransport:
    """To a running Forager. `find` is asked again when nobody answers: after a restart the address may be another."""

    def __init__(self, session: "aiohttp.ClientSession", find: "Callable[[], str | None]") -> None:
        self._session = session
        self._find = find
        self.where = find() or "no address"

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        import aiohttp

        give_up = time.monotonic() + PATIENCE
        while True:
            self.where = self._find() or self.where
            try:
                async with self._session.request(
                    method, self.where + target, headers=headers, data=body or None
                ) as got:
                    return Answer(got.status, {k.lower(): v for k, v in got.headers.items()}, await got.read())
            except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                # Only what changes nothing may be sent twice; a connection that was never made carried nothing.
                again = method == "GET" or isinstance(error, aiohttp.ClientConnectorError)
                if not again or time.monotonic() > give_up:
                    raise ApiUnreachable(_no_answer(self.where, str(error))) from error
            except (TimeoutError, aiohttp.ClientError) as error:
                raise ApiUnreachable(_no_answer(self.where, str(error) or "no answer in time")) from error
            await asyncio.sleep(ASK_AGAIN_EVERY)


class LocalTransport:
    """To the same application, in this process."""

    where = "this process"

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        sized = {**headers, "Host": "127.0.0.1"}
        if body:
            sized["Content-Length"] = str(len(body))
        status, answered, content = await call(self._application, method, target, sized, body)
        return Answer(status, answered, content)


def _no_answer(where: str, reason: str) -> str:
    return f"Forager at {where} does not answer ({reason}). Is `forager up` running? Check with `forager doctor`."
