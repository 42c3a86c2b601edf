"""Simulated upstreams as a process of their own: started together, announced once, ended by a signal."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import uvloop


def run_until_ended(
    servers: Sequence[AbstractAsyncContextManager[Any]],
    announce: Callable[[], None],
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Run servers until SIGTERM or SIGINT. `announce` is called once all of them listen.

    With `until_stdin_closes` they also end when standard input does: a starter that is killed leaves no orphan.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # logs grow by small, acyclic objects: looking through them only stalls the loop
    uvloop.run(_run(servers, announce, until_stdin_closes))


async def _run(
    servers: Sequence[AbstractAsyncContextManager[Any]], announce: Callable[[], None], until_stdin_closes: bool
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, ended)
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        announce()
        await ended.wait()


def _watch_stdin(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()
