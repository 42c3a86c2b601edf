"""A shift: the engine works on the lanes of one queue until nothing is left, its time is over, or the worker stops."""

import asyncio
import mmap
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import uvloop
from celery import shared_task

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import load_settings
from forager.engine.waits import QUANTUM
from forager.ledger.catalog import DEFAULT_QUEUE
from forager.runners.celery.dispatch import FIRE, SUBMIT, WORK

LOOK_EVERY = 0.1
SHARE_WITHIN = QUANTUM + 3.0
"""Seconds within which a session gets its share of lanes that others hold: their quantum, and a moment."""
_OWNED = "SELECT count(*) AS lanes FROM lanes WHERE owner IS NOT NULL AND queue = :queue"


async def work_shift(app: App, queue: str, is_stopping: Callable[[], bool]) -> None:
    """Work on the lanes of a queue, then drain: in-flight tasks finish, or return to the queue.

    Ends when nothing was left for `shift_idle_seconds`, or after `shift_seconds`, or when `is_stopping()`. A shift that
    has had no work yet stays longer while other sessions hold several lanes of the queue, because they make room for
    it. Raises what broke the engine.
    """
    settings, clock, worker = app.settings, app.clock, app.worker
    began = quiet_since = clock.monotonic()
    first = seen = worker.stats.started
    if is_stopping():
        return
    async with app.shift(queue) as engine:
        while not engine.done() and not is_stopping():
            await clock.sleep(LOOK_EVERY)
            now = clock.monotonic()
            if now - began >= settings.shift_seconds:
                break
            if worker.is_busy or worker.stats.started != seen:
                quiet_since, seen = now, worker.stats.started
            elif now - quiet_since >= settings.shift_idle_seconds:
                has_worked, has_waited = worker.stats.started > first, now - began > SHARE_WITHIN
                if has_worked or has_waited or not await _others_have_many(app, queue):
                    break
                quiet_since = now
        if engine.done():
            engine.result()


async def _others_have_many(app: App, queue: str) -> bool:
    rows = await app.database.fetch(_OWNED, {"queue": queue})
    return int(rows[0]["lanes"]) > 1


# One event loop and one `App` per worker process, kept between its tasks: opening them takes longer than most shifts'
# first lease.
#
# Celery forks its worker processes, so nothing of this may exist before the fork, except `STOP`: memory that parent and
# children share, through which a warm shutdown reaches a running shift at once.


T = TypeVar("T")


class SharedFlag:
    """A flag that a process sets and its forked children read. It has no lock, which a killed child could keep."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    def is_set(self) -> bool:
        return self._memory[0] == 1


STOP = SharedFlag()
"""Set while the worker shuts down: shifts end, and none begins."""


class Child:
    """The event loop of a worker process, and the application on it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._stack = AsyncExitStack()
        self._app: App | None = None

    def run(self, work: Callable[[App], Awaitable[T]]) -> T:
        """Run `work` to its end. The application is opened at the first call."""
        return self._runner.run(self._run(work))

    def close(self) -> None:
        """Close application and loop."""
        with self._runner as runner:
            runner.run(self._stack.aclose())

    async def _run(self, work: Callable[[App], Awaitable[T]]) -> T:
        if self._app is None:
            self._app = await self._stack.enter_async_context(open_app(load_settings({}), must_fit=True))
        return await work(self._app)


_child: Child | None = None


def current() -> Child:
    """Return this process's child, which is made at the first call."""
    global _child
    _child = _child or Child()
    return _child


def close() -> None:
    """Close this process's child, if it has one."""
    global _child
    if _child is not None:
        _child.close()
        _child = None


# The three Celery tasks. They carry references only, and each may be repeated without harm.
#
# They are shared tasks: a team's own Celery application also has them, as soon as it imports this module.


_OPTIONS: Mapping[str, Any] = {"ignore_result": True, "acks_late": False, "max_retries": 0}


def _work(task: Any, queue: str | None = None) -> None:
    """A shift on the lanes of a queue: by default, of the queue that brought the message."""
    brought_by = (task.request.delivery_info or {}).get("routing_key") or DEFAULT_QUEUE
    current().run(lambda app: work_shift(app, queue or brought_by, STOP.is_set))


def _fire(name: str) -> None:
    """Fire a schedule if it is due. Each of its times creates one job, however often this is sent."""
    current().run(lambda app: app.fire(name))


def _submit(pipeline: str, params: Mapping[str, Any], key: str) -> str:
    """Create a job and return its id. `key` makes it safe to send twice: the second message finds the first job."""
    return str(current().run(lambda app: app.submit(pipeline, params, key=key)).job)


work = shared_task(name=WORK, bind=True, **_OPTIONS)(_work)
fire = shared_task(name=FIRE, **_OPTIONS)(_fire)
submit = shared_task(name=SUBMIT, **_OPTIONS)(_submit)
