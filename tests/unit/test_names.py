"""Lookups of names beside the loop: a dead name server holds up nobody else. The system's resolver is stood in for."""

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import uvloop

from forager.fetch.guard import SystemNames

PATIENCE = 60.0


class Servers:
    """`getaddrinfo` over names that are known, unknown, or never answered."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.give_up = threading.Event()

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.asked[host] += 1
        if host.startswith("dead"):
            self.give_up.wait(PATIENCE)
        if not host.startswith("shop"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, (address, port)) for address in ("93.184.215.14", "93.184.215.15", "93.184.215.14")]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    made = Servers()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    yield made
    made.give_up.set()


def test_names_whose_servers_are_silent_hold_up_no_other_name__R12(servers: Servers) -> None:
    """On the loop that `forager` runs on: its own `getaddrinfo` would do two at a time."""

    async def run() -> None:
        names = SystemNames()
        dead = [asyncio.create_task(names(f"dead{n}.example", 443)) for n in range(40)]
        async with asyncio.timeout(PATIENCE / 2):
            assert await names("shop.example", 443) == ["93.184.215.14", "93.184.215.15"]
        assert not any(task.done() for task in dead)
        servers.give_up.set()
        assert all(isinstance(each, OSError) for each in await asyncio.gather(*dead, return_exceptions=True))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


async def test_a_name_is_resolved_once_at_a_time_and_all_callers_get_the_answer(servers: Servers) -> None:
    names = SystemNames()
    waiting = [asyncio.create_task(names("dead.example", 443)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    servers.give_up.set()
    cancelled, *told = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert {type(each) for each in told} == {socket.gaierror}
    assert servers.asked["dead.example"] == 1
    with pytest.raises(socket.gaierror):
        await names("dead.example", 443)
    assert servers.asked["dead.example"] == 2, "an answer is not kept"


async def test_lookups_beyond_the_limit_wait_for_their_turn(servers: Servers) -> None:
    names = SystemNames(most=2)
    waiting = [asyncio.create_task(names(f"dead{n}.example", 443)) for n in range(3)]
    async with asyncio.timeout(PATIENCE):
        while len(servers.asked) < 2:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.02)
    assert len(servers.asked) == 2
    servers.give_up.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(servers.asked) == 3


async def test_a_lookup_without_a_free_thread_fails_with_a_transient_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = SystemNames()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread is left"):
            await names("shop.example", 443)
    assert not names._asked


async def test_an_abandoned_lookup_leaves_no_thread_to_wait_for(servers: Servers) -> None:
    asking = asyncio.create_task(SystemNames()("dead.example", 443))
    async with asyncio.timeout(PATIENCE):
        while not servers.asked:
            await asyncio.sleep(0.001)
    asking.cancel()
    (thread,) = [each for each in threading.enumerate() if each.name == "lookup of dead.example"]
    assert thread.daemon, "a process that stops would wait for it"
