"""The child process of `up` and `worker`: runs the engine, with or without the API, until a signal stops it; then
drains.

The supervising parent (`supervise.py`) restarts it when it dies and kills it when its event loop is stuck.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from forager.cli.supervise import Supervisor, beat_to_supervisor, supervised_command
from forager.core.errors import FieldError, Rejected, StoreLocked
from forager.ledger.sqlite.lock import read_owner
from forager.sdk.cli.invocation import ExitCode, StopRequest, early_stop, stop_on_signals

if TYPE_CHECKING:
    from forager.app.application import App
    from forager.ledger.reports import JobReport
    from forager.settings import Settings

log = structlog.get_logger("forager.process")

STUCK_AFTER = 30.0
"""An event loop that has been blocked for this long is considered stuck."""
SWITCH_INTERVAL = 0.001
"""Interpreter switch interval. The writer's thread must run often, or every commit waits for a whole iteration of the
event loop."""
LOOK_FOR_WORK_EVERY = 0.2
SURE_AFTER = 5
"""Number of consecutive checks in which no open job could run, after which the process ends."""
WAIT_FOR_STORE = 5.0
LOOK_FOR_STORE_EVERY = 0.05


def supervise(arguments: Sequence[str], settings: "Settings") -> int:
    """Run this same command in a child process and keep it running."""
    from forager.logging import configure_logs

    configure_logs(settings.log_level, settings.log_format, settings.secrets())
    command = supervised_command(arguments)
    return Supervisor(command, stuck_after=STUCK_AFTER, grace=settings.shutdown_seconds).run()


def run_process(settings: "Settings", main: Coroutine[Any, Any, None], *, key: str = "") -> ExitCode:
    """Set up the child process (speed, logging without secrets) and run `main` in it."""
    import uvloop

    from forager.logging import configure_logs

    configure_logs(settings.log_level, settings.log_format, [*settings.secrets(), *([key] if key else [])])
    if early_stop() is not None:  # nothing is open yet that would have to be closed
        main.close()
        return ExitCode.OK
    sys.setswitchinterval(SWITCH_INTERVAL)
    uvloop.run(main)
    return ExitCode.OK


class Mode(StrEnum):
    """The work that `up` runs in addition to the API."""

    EMBEDDED = "embedded"
    """Everything."""
    CELERY = "celery"
    """Everything but the work: it sends shifts to Celery workers."""
    API_ONLY = "api"
    """Nothing."""


async def up(
    settings: "Settings",
    key: str,
    show_url: Callable[[str, str, Sequence[str]], None],
    mode: Mode = Mode.EMBEDDED,
) -> None:
    """Run the API and the work of `mode` until a stop is requested. `show_url` gets the URL, the link that signs a
    browser in, and the notices of the features."""
    from forager.api.serve import serve

    async with _running(settings) as (app, stop):
        links: list[str] = []
        async with serve(app, host=settings.host, port=settings.port, key=key, take_link=links.append) as url:
            show_url(url, links[0], await app.notices())
            log.info("up", url=url, pid=os.getpid())
            warming = asyncio.create_task(_warm_up(app, stop))
            async with _shifts(app) if mode is Mode.CELERY else nullcontext():
                await (serve_until(app, stop) if mode is Mode.API_ONLY else work_until(app, stop))
            warming.cancel()
        log.info("stopped")


async def _warm_up(app: "App", stop: StopRequest) -> None:
    if not stop.is_asked:  # a process that stops needs no tables
        await app.warm_up()


async def worker(
    settings: "Settings",
    *,
    until_idle: bool,
    show_left: Callable[["Sequence[JobReport]"], None],
    metrics: tuple[str, int] | None = None,
    queues: Sequence[str] | None = None,
    from_kafka: bool = False,
) -> None:
    """Run the engine alone. With `until_idle`, end when nothing can run, and show the jobs that are left. `metrics`:
    the address at which the process shows its figures. `queues`: take only lanes of these queues; `from_kafka`: claim
    the tasks that their topics name."""
    async with _running(settings) as (app, stop), AsyncExitStack() as stack:
        if metrics is not None:
            from forager.api.serve import serve_metrics

            host, port = metrics
            log.info("metrics", url=await stack.enter_async_context(serve_metrics(app, host=host, port=port)))
        if app.telemetry is not None:
            from forager.api.metrics import worker_metrics

            app.telemetry.families = partial(worker_metrics, app)
        _require_known(queues or (), app.queues)
        app.serve(queues or ())
        if from_kafka:
            await stack.enter_async_context(_tasks_from_kafka(app, queues or ()))
        log.info("working", pid=os.getpid(), queues=queues or "all", region=settings.region)
        left = await work_until(app, stop, idle=until_idle)
        log.info("stopped")
    if until_idle:
        show_left(left)


def _require_known(queues: Sequence[str], known: Collection[str]) -> None:
    """Raise `Rejected` for a queue that no lane can belong to: its worker would wait for ever."""
    if unknown := [name for name in queues if name not in known]:
        problem = f"unknown queue {unknown[0]!r}; choose from {', '.join(sorted(known))}"
        raise Rejected(f"--queue: {problem}.", fields=[FieldError("--queue", problem)])


async def serve_until(app: "App", stop: StopRequest) -> None:
    """Serve the API, without an engine, until a stop is requested."""
    beating = asyncio.create_task(beat_to_supervisor())
    try:
        async with app.api_only():
            await stop.wait()
    finally:
        beating.cancel()


async def work_until(app: "App", stop: StopRequest, *, idle: bool = False) -> "Sequence[JobReport]":
    """Run engine and schedules until a stop is requested or, with `idle`, until nothing can run now. Then drain.

    Returns the open jobs that are left, each with the reason why it waits; an empty list if it was stopped. Heartbeats
    to the supervisor start only here: it does not restart a child that ends before the first one (store locked, port
    taken).
    """
    beside = [asyncio.create_task(_give_back_when_hurried(app, stop)), asyncio.create_task(beat_to_supervisor())]
    try:
        async with app.engine(schedules=not idle) as engine:
            left: list[JobReport] = []
            await _first_of(engine, stop.wait(), *([_until_idle(app, left)] if idle else []))
            if stop.by is not None:
                log.info("shutting_down", signal=stop.by.name)
            elif engine.done() and (failure := engine.exception()) is not None:
                _die(failure)
            return left
    finally:
        for task in beside:
            task.cancel()


def _shifts(app: "App") -> AbstractAsyncContextManager[object]:
    from forager.runners.celery.dispatch import sending_shifts

    return sending_shifts(app)


def _tasks_from_kafka(app: "App", queues: Sequence[str]) -> AbstractAsyncContextManager[object]:
    from forager.runners.kafka.feed import consuming

    return consuming(app, queues)


async def _first_of(engine: asyncio.Task[None], *others: Coroutine[Any, Any, None]) -> None:
    tasks = [asyncio.create_task(other) for other in others]
    await asyncio.wait([engine, *tasks], return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _give_back_when_hurried(app: "App", stop: StopRequest) -> None:
    await stop.wait_for_hurry()
    log.warning("shutting_down_at_once")
    await app.worker.drain(0)


def _die(failure: BaseException) -> None:
    """End the process. The engine never ends by itself, so this is a defect, and a restart is the safest recovery."""
    log.critical("engine_broke_down", exc_info=failure)
    raise failure


@asynccontextmanager
async def _running(settings: "Settings") -> AsyncIterator[tuple["App", StopRequest]]:
    with stop_on_signals() as stop:
        async with AsyncExitStack() as stack:
            yield await _opened(settings, stack), stop


async def _opened(settings: "Settings", stack: AsyncExitStack) -> "App":
    """Open the store. Wait a moment if a short command has it open; fail at once if a process with an API does."""
    from forager.app.compose import open_app

    give_up = time.monotonic() + WAIT_FOR_STORE
    while True:
        try:
            return await stack.enter_async_context(open_app(settings, must_fit=True))
        except StoreLocked:
            owner = read_owner(settings.home / "lock")
            if (owner is not None and owner.url is not None) or time.monotonic() > give_up:
                raise
        await asyncio.sleep(LOOK_FOR_STORE_EVERY)


async def _until_idle(app: "App", left: "list[JobReport]") -> None:
    """Create the tasks of the records that are due now, as `listings verify` leaves them, and wait until no open job
    can run. This must hold at several consecutive checks, because tasks may be created meanwhile.

    Records that come due later stay: those of a short interval would keep the worker busy for ever."""
    await app.rechecker.look()
    looks = 0
    while looks < SURE_AFTER:
        jobs = await app.left_over()
        looks = 0 if jobs is None else looks + 1 if jobs else SURE_AFTER
        left[:] = jobs or ()
        if looks < SURE_AFTER:
            await asyncio.sleep(LOOK_FOR_WORK_EVERY)
