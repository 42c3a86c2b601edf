"""Name lookups by the operating system, off the event loop.

Each lookup has its own thread: libuv, and so uvloop's `getaddrinfo`, runs only two at a time, and two dead name servers
would block every lane. Concurrent callers for one name share a lookup, so that a dead name occupies one thread. The
threads are daemons, so that a stopping process does not wait for a name server. The results are not judged here; the
guard does that.
"""

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

MOST_AT_ONCE = 256

Lookup = asyncio.Task[Sequence[str]]


class SystemNames:
    """`await names("shop.example", 443)`: all stream addresses, in the system's order of preference."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._room = asyncio.Semaphore(most)
        self._asked: dict[tuple[str, int], Lookup] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        asked = self._asked.get((host, port))
        if asked is None:
            asked = self._asked[host, port] = asyncio.create_task(self._look_up(host, port))
            asked.add_done_callback(lambda done: self._answered((host, port), done))
        return await asyncio.shield(asked)  # a caller that is cancelled does not affect the others

    def _answered(self, name: tuple[str, int], done: Lookup) -> None:
        del self._asked[name]
        if not done.cancelled():
            done.exception()  # all callers may have been cancelled

    async def _look_up(self, host: str, port: int) -> Sequence[str]:
        async with self._room:
            loop = asyncio.get_running_loop()
            answer: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()

            def tell(give: Callable[[Any], None], what: Any) -> None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(lambda: None if answer.done() else give(what))

            def ask() -> None:
                try:
                    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
                except Exception as error:  # noqa: BLE001 - passed on to the callers
                    tell(answer.set_exception, error)
                else:
                    tell(answer.set_result, addresses)

            try:
                threading.Thread(target=ask, name=f"lookup of {host}", daemon=True).start()
            except RuntimeError as error:  # no more are allowed here, for now
                raise OSError(errno.EAGAIN, "no thread is left for the lookup") from error
            return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in await answer))
