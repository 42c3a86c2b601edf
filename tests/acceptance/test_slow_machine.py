"""A machine that is so slow or busy that starts and answers take far longer than usual: Forager waits, and the demo
does too."""

import asyncio
import signal
import sys
from collections.abc import Iterator

import pytest

from forager.cli import supervise
from forager.cli.supervise import BEAT_FD, Supervisor
from forager.client import connect
from forager.client.connect import HttpTransport
from forager.sdk.cli.client import ApiUnreachable

pytestmark = pytest.mark.acceptance


@pytest.fixture
def own_signals() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_a_child_that_starts_too_slowly_gets_twice_the_time_at_its_next_start(
    own_signals: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "START_GRACE", 0.2)
    late = f"import os, time; time.sleep(0.5); os.write(int(os.environ[{BEAT_FD!r}]), b'.')"
    supervisor = Supervisor([sys.executable, "-c", late], stuck_after=60.0, grace=1.0)
    assert supervisor.run() == 0


@pytest.mark.parametrize(("method", "answered"), [("GET", True), ("POST", False)])
async def test_only_a_read_without_an_answer_in_time_is_repeated(
    method: str, answered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is never answered; what was sent to change something may have been done."""
    monkeypatch.setattr(connect, "REQUEST_SECONDS", 0.3)
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        if asked == 1:
            await reader.read()  # until the client gives up
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(lambda: f"http://127.0.0.1:{port}", patience=60.0)
    async with server:
        if answered:
            assert (await transport(method, "/jobs", {}, b"")).status == 200
        else:
            with pytest.raises(ApiUnreachable, match="no answer in time"):
                await transport(method, "/jobs", {}, b"")
            assert asked == 1
