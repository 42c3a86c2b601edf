"""Processes that tests kill, forked from one that has loaded everything: a new life costs no second of importing.

Every test process has one such server. It is started with the first call and loads all modules of `PRELOADED`, whoever
calls first: Python ignores what is to be preloaded once the server runs.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PRELOADED = (
    "tests.support.archive_process",
    "tests.support.engine_process",
    "tests.support.kill_storm",
    "tests.support.listings_process",
    "tests.support.retention_process",
    "tests.support.reviews_process",
    "tests.support.sink_process",
    "tests.support.recheck_process",
    "tests.support.webhook_process",
    "tests.support.wrapper_process",
    "tests.support.preload",
)


def start_forked(work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> ForkServerProcess:
    """Run this coroutine in a process of its own, and return that; it is killed with the test process at the latest."""
    return start_function(_run, work, arguments, daemon=True)


def start_function(function: Callable[..., None], *arguments: Any, daemon: bool) -> ForkServerProcess:
    """The same for a function. A daemon is killed with the test process, and may not use multiprocessing itself."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))
    with contextlib.chdir(ROOT):  # where `tests` can be imported, wherever a test has gone
        forkserver.ensure_running()
    process = context.Process(target=function, args=arguments, daemon=daemon)
    process.start()
    return process


def _run(work: Callable[..., Coroutine[Any, Any, Any]], arguments: tuple[Any, ...]) -> None:
    asyncio.run(work(*arguments))
