"""Slow calls in threads of their own: a process that stops does not wait for them."""

import asyncio
import threading

import pytest
import uvloop

from forager.app.wiring import References
from forager.core.threads import in_daemon_thread


def test_a_stopping_process_does_not_wait_for_a_loading_table() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def load() -> None:
        begun.set()
        go.wait(20)
        ended.set()

    async def stopped_while_it_loads() -> None:
        loading = asyncio.create_task(References({"zips": load}).get("zips"))
        while not begun.is_set():
            await asyncio.sleep(0)
        loading.cancel()

    uvloop.run(stopped_while_it_loads())
    assert not ended.is_set()
    go.set()
    assert ended.wait(30), "its answer comes after the end of the loop, and harms nothing"


async def test_results_and_errors_of_a_thread_reach_the_caller() -> None:
    assert await in_daemon_thread(lambda: threading.current_thread().name, name="reads a table") == "reads a table"
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, name="divides")
