"""The machine of a simulated process: its writer, its disk, its readers and its connections, without a thread, a
process or a socket. The parts are subclasses of ours that replace only how they wait, so that all else is the real
code."""

import asyncio
import errno
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import aiohttp
import requests
from multidict import CIMultiDict
from requests.adapters import HTTPAdapter
from yarl import URL

from forager.app.machine import Machine
from forager.core.errors import ParseFailed
from forager.core.reading import LIMIT, ReadError, care, result_of
from forager.fetch.http.fetcher import HttpFetcher, leaving
from forager.ledger.sqlite.connection import Writer
from forager.sinks.webhook import signing
from forager.storage.pages.local import LocalBlobs, _translated
from tests.simulate.upstreams import Upstreams, WireConnection
from tests.simulate.world import SimulatedFaults, World

POISON = "poison"
DEADLY = 40
"""Most steps after which a process dies that has received a poisonous page."""


def machine(world: World, upstreams: Upstreams) -> Machine:
    """Return the machine of the next process."""
    bound = {"world": world, "upstreams": upstreams}
    return Machine(
        writer=type("Writer", (SimulatedWriter,), bound),
        blobs=type("Blobs", (SimulatedBlobs,), bound),
        fetcher=type("Fetcher", (SimulatedFetcher,), bound),
        readers=lambda _: SimulatedReaders(world),
        random=lambda: world.stream(f"jitter of life {world.life}"),
        name=lambda: f"simulated:{world.life}",
        faults=SimulatedFaults(world),
    )


def install(world: World) -> None:
    """Give this process the random numbers and the clock of the world. Only for a process that simulates one seed."""
    vars(os).update(urandom=world.random_bytes)
    random.seed(f"{world.plan.seed}/random")
    vars(time).update(
        time=lambda: world.wall().timestamp(),
        time_ns=lambda: int(world.wall().timestamp() * 1e9),
        monotonic=lambda: 1_000.0 + world.now,
    )
    _give_sqlite_the_clock(world)


def _give_sqlite_the_clock(world: World) -> None:
    """Let SQLite take the present moment, with which it fills columns, from the world."""
    real, other = sqlite3.connect, sqlite3.connect(":memory:", check_same_thread=False)

    def julianday(*given: Any) -> float | None:
        if given == ("now",):
            return world.wall().timestamp() / 86_400 + 2_440_587.5
        days: float | None = other.execute(f"SELECT julianday({', '.join('?' * len(given))})", given).fetchone()[0]
        return days

    def connect(*given: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = real(*given, **options)
        db.create_function("julianday", -1, julianday)
        return db

    vars(sqlite3).update(connect=connect)


def carry_messages(world: World, upstreams: Upstreams) -> None:
    """Hand the messages of channels, which `apprise` sends by itself, to the receiver of alerts."""

    def send(_: HTTPAdapter, request: Any, **__: Any) -> requests.Response:
        fault = world.fault("message")
        kind = None if fault is None else fault.kind
        if kind == "death":
            world.die()
        if kind == "unreachable" or world.is_partitioned():
            raise requests.ConnectionError("Connection refused")
        if kind != "http500":
            upstreams.channel.take(request.body if isinstance(request.body, bytes) else request.body.encode())
        world.tell("message", request.url, kind or "")
        if kind == "lost":
            raise requests.ConnectionError("the answer was lost")
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = _STATUSES.get(kind or "", 200), request.url, request
        return answer

    HTTPAdapter.send = send  # type: ignore[method-assign,assignment]


class SimulatedWriter(Writer):
    """Commits a group a moment after its first command has arrived."""

    world: ClassVar[World]
    _is_due = False

    def _start(self) -> None:
        return

    def _is_alive(self) -> bool:
        return True

    def _arrived(self) -> None:
        if not self._is_due and not self._closing:
            self._is_due = True
            slow = self.world.fault("commit")
            moment = self.world.stream("commits").uniform(0.0005, 0.01) + (slow.seconds if slow else 0.0)
            self._loop.call_later(moment, self._turn)

    def _turn(self) -> None:
        self._is_due = False
        if self._take():
            self._work_on()
        if self._waiting or not self._commands.empty():
            self._arrived()

    def _take(self, timeout: float | None = None) -> bool:
        return super()._take(0)

    def _work_on(self) -> None:
        before = self.db.total_changes
        super()._work_on()
        self.world.mix(self.db.total_changes - before & 0xFFFFFFFF)

    async def _ended(self) -> None:
        while self._take():
            self._work_on()


class SimulatedBlobs(LocalBlobs):
    """Works on the folder a moment after the call. A torn write leaves a part of a frame; the process dies."""

    world: ClassVar[World]

    async def _do(self, work: Callable[[], Any]) -> Any:
        world = self.world
        loop: Any = asyncio.get_running_loop()

        def on_disk() -> Any:
            torn = world.fault("blob")
            if world.disk_is_full():
                raise _translated(OSError(errno.ENOSPC, "No space left on device"), self._folder)
            sizes = _sizes(self._folder) if torn else {}
            try:
                result = work()
            except Exception as error:
                raise _translated(error, self._folder) from error
            if torn:
                for file, size in _sizes(self._folder).items():
                    had = sizes.get(file, 0)
                    if size > had:
                        os.truncate(file, had + world.stream("torn").randrange(size - had))
                world.die()
            return result

        return await loop.run_in_executor(None, on_disk)

    async def close(self) -> None:
        self._close()


def _sizes(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_size for file in folder.rglob("*") if file.is_file() and "index" not in file.name}


class SimulatedReaders:
    """Implements `core.reading.Offload` on this thread. Results cross as JSON, as those of the real readers do."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, work: Callable[..., Any], page: bytes, /, *args: Any, limit: float = LIMIT) -> Any:
        world = self._world
        await asyncio.sleep(world.stream("readers").uniform(0.001, 0.02))
        fault = world.fault("page")
        if fault is not None and fault.kind == "death":
            world.die()
        if fault is not None:
            raise ParseFailed(f"The page needs more than {limit:g} CPU seconds.")
        care.is_needed = False
        try:
            result = work(page, *args)
        except Exception as error:
            raise ReadError(f"{type(error).__name__}: {error}") from error
        finally:
            care.is_needed = True
        declared = result_of(work)
        return declared.validate_json(declared.dump_json(result))

    async def close(self) -> None:
        return


class SimulatedFetcher(HttpFetcher):
    """The real fetcher (guard, redirects, secrets, signatures) on simulated connections."""

    world: ClassVar[World]
    upstreams: ClassVar[Upstreams]

    def _open_session(self, connector: Any) -> Any:
        return SimulatedSession(self.world, self.upstreams, self._user_agent)


class SimulatedSession:
    """The part of aiohttp's session that the fetcher uses. Hands requests to the upstreams, through the faults of the
    network."""

    def __init__(self, world: World, upstreams: Upstreams, agent: str) -> None:
        self._world = world
        self._upstreams = upstreams
        self._agent = agent

    async def request(
        self, method: str, url: URL, *, headers: Any, data: bytes | None, allow_redirects: bool
    ) -> "SimulatedAnswer":
        world = self._world
        network = world.stream("network")
        if signing.TIMESTAMP in headers and int(headers[signing.TIMESTAMP]) != int(world.wall().timestamp()):
            world.defects.append(f"a message left with the time of an earlier try: {headers[signing.ID]}")
        await asyncio.sleep(network.uniform(0.001, 0.02))
        fault = world.fault("request")
        kind = None if fault is None else fault.kind
        if fault is not None and kind == "partition":
            world.partition_until = world.now + fault.seconds
        if kind == "unreachable" or world.is_partitioned():
            world.tell("request", method, url, "unreachable")
            raise aiohttp.ClientConnectorError(_NO_KEY, OSError(errno.ECONNREFUSED, "Connection refused"))
        if (told := leaving.get()) is not None:
            told()
        if kind in _STATUSES:
            world.tell("request", method, url, _STATUSES[kind])
            return SimulatedAnswer(url, _STATUSES[kind], {}, b"{}")
        if kind == "hang":
            await asyncio.get_running_loop().create_future()
        status, more, body = await self._ask(method, url, headers, data)
        await asyncio.sleep(
            network.uniform(0.001, 0.05) + (fault.seconds if fault is not None and kind == "slow" else 0)
        )
        world.tell("request", method, url, status, kind if kind == "lost" else "")
        if kind == "lost":
            raise aiohttp.ServerDisconnectedError
        if kind == "garbled":
            body = body[: len(body) * 2 // 3] + b"\x00<br>"
        if POISON in url.query_string and not world.is_without_poison:
            asyncio.get_running_loop().call_later(network.uniform(0.0, 0.1), self._poisoned)
        return SimulatedAnswer(url, status, more, body)

    async def _ask(self, method: str, url: URL, headers: Any, data: bytes | None) -> tuple[int, dict[str, str], bytes]:
        connection = WireConnection(asyncio.get_running_loop())
        named = {"host": f"{url.host}:{url.port}", "user-agent": self._agent, **headers}
        self._upstreams.receive(method, url, named, data or b"", connection)
        try:
            return await connection.answer
        finally:
            connection.leave()

    def _poisoned(self) -> None:
        self._world.tell("POISON")
        self._world.die()

    async def close(self) -> None:
        return


class SimulatedAnswer:
    """The part of aiohttp's response that the fetcher uses; the body has arrived whole."""

    def __init__(self, url: URL, status: int, headers: dict[str, str], body: bytes) -> None:
        self.url, self.status = url, status
        self.headers: CIMultiDict[str] = CIMultiDict(headers)
        self.content_length = len(body)
        self.content = self
        self._body: bytes | None = body

    async def readany(self) -> bytes:
        body, self._body = self._body or b"", None
        return body

    def at_eof(self) -> bool:
        return self._body is None

    def release(self) -> None:
        return

    def close(self) -> None:
        return


_STATUSES = {"http500": 500, "http503": 503, "http429": 429}
_NO_KEY: Any = type("Key", (), {"host": "", "port": 0, "is_ssl": False, "ssl": True})()
