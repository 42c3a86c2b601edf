"""Many clients that create jobs over HTTP: `python -m bench.support.load URL KEY CLIENTS COUNT [ROUTE BODY]`.

Without a route, one-task jobs of places.

A client sends its next request when it has the answer to its last, on a connection that stays open. Written on bare
sockets: a full HTTP client would need more CPU than the server that it is to load.
"""

import asyncio
import json
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import uvloop

JOB = b'{"keyword": "bars", "zips": ["85001"], "pages": 1}'
ROUTE = "/api/v1/places/jobs"


class Load:
    """Requests that are still to be sent, over all clients; a client that has its answer takes the next."""

    def __init__(self, count: int) -> None:
        self.to_send = count
        self.to_come = count
        self.done = asyncio.get_running_loop().create_future()

    def take(self) -> bool:
        self.to_send -= 1
        return self.to_send >= 0

    def answered(self, head: bytes) -> None:
        self.to_come -= 1
        if not head.startswith(b"HTTP/1.1 202 "):
            self.fail(head.decode(errors="replace"))
        elif self.to_come == 0 and not self.done.done():
            self.done.set_result(None)

    def fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


class Client(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self._request = request
        self._got = b""
        self._load: Load | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def work(self, load: Load) -> None:
        self._load = load
        if load.take():
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, found, body = self._got.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(body) >= length and self._load is not None:
            self._got = body[length:]
            self._load.answered(head)
            self.work(self._load)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._load is not None:
            self._load.fail(f"the server closed a connection: {exc}")


async def main(url: str, key: str, clients: int, count: int, route: str = ROUTE, job: bytes = JOB) -> None:
    where = urlsplit(url)
    lines = (
        f"POST {route} HTTP/1.1",
        f"Host: {where.netloc}",
        f"X-Service-Key: {key}",
        "Content-Type: application/json",
    )
    request = "\r\n".join((*lines, f"Content-Length: {len(job)}", "", "")).encode() + job
    loop = asyncio.get_running_loop()
    host, port = where.netloc.split(":")
    made = [await loop.create_connection(lambda: Client(request), host, int(port)) for _ in range(clients)]
    await press(made, clients * 5)  # every connection warm, every code path seen
    started, used = time.perf_counter(), time.process_time()
    await press(made, count)
    seconds, used = time.perf_counter() - started, time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu": used}), flush=True)


async def press(made: list[tuple[asyncio.Transport, Client]], count: int) -> None:
    load = Load(count)
    for _, client in made:
        client.work(load)
    await load.done


if __name__ == "__main__":
    where, key, clients, count, *more = sys.argv[1:]
    chosen = (more[0], more[1].encode()) if more else (ROUTE, JOB)
    uvloop.run(main(where, key, int(clients), int(count), *chosen))
