"""A pipeline whose tasks choose how they end: every outcome, every bug, every way to kill a process.

Each completed task leaves a world record and a job record, so that an auditor can see effects that happened twice.
"""

import asyncio
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from forager.core.errors import Permanent, RateLimited, Retry, Transient
from forager.core.http import Fetch, Request
from forager.core.outcome import MAX_CHILDREN, Done, Drop, Gone, Halt, Outcome, Reject, Snooze
from forager.core.pipeline import Lane, Pipeline, step
from forager.core.record import Record
from forager.core.task import Plan, Task

QUICK = Retry(3, first=0.05)
STEP_TIMEOUT = 2.0
DEAD_AFTER = 200.0
"""Seconds after which an act gives up an upstream that does not answer."""


class Act(Task):
    kind: ClassVar[str] = "act"
    name: str
    how: str = "well"
    where: str = "acts"
    url: str | None = None
    flag: str | None = None
    """A file: what the task does depends on whether it is there."""
    seconds: float = 0.0
    block: float = 0.0
    """For how long `overrun` holds the whole process up."""

    def key(self) -> str:
        return self.name

    def lane(self) -> str:
        return self.where


class Deed(Record):
    kind: ClassVar[str] = "deed"
    table: ClassVar[str] = "act_deeds"
    key_field: ClassVar[str] = "name"
    name: str
    worth: int = 0


class Note(Record):
    kind: ClassVar[str] = "note"
    table: ClassVar[str] = "act_notes"
    key_field: ClassVar[str] = "name"
    scope: ClassVar[Literal["world", "job"]] = "job"
    name: str


RECORDS = (Deed, Note)


class ActsJob(BaseModel):
    name: str = "acts"


def acts(*lanes: Lane, timeout: float = STEP_TIMEOUT) -> Pipeline:
    return Pipeline(
        name="acts",
        params=ActsJob,
        plan=lambda job: (),
        steps=(step(Act, perform, price=1, timeout=timeout),),
        records=RECORDS,
        lanes=lanes or (Lane("acts", rate=None, retry=QUICK),),
    )


def many(count: int, *, prefix: str = "t", **more: Any) -> Iterable[Plan]:
    return [Plan(Act(name=f"{prefix}{n:05d}", **more)) for n in range(count)]


async def perform(act: Act, fetch: Fetch) -> Outcome:
    if act.url is not None:
        await fetch(Request(act.url, timeout=DEAD_AFTER))
    if act.seconds:
        await asyncio.sleep(act.seconds)
    ended: Outcome = _ENDS[act.how](act)
    return ended


def found(act: Act) -> Done:
    return Done(records=(Deed(name=act.name, worth=1), Note(name=act.name)), cost=1)


def _family(act: Act) -> Done:
    children = [Plan(Act(name=f"{act.name}/{n}")) for n in range(3)]
    return Done(tasks=[*children, Plan(Act(name=f"{act.name}/last"), after=f"{act.name}/2")], cost=1)


def _crowd(act: Act) -> Done:
    return Done(tasks=[Plan(Act(name=f"{act.name}/{n}")) for n in range(MAX_CHILDREN + 1)], cost=1)


def _raise(error: Exception) -> Outcome:
    raise error


def _snooze_until_flagged(act: Act) -> Outcome:
    return found(act) if os.path.exists(act.flag or "") else Snooze(0.05, "not there yet")  # noqa: PTH110


def _segfault(_: Act) -> Outcome:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("a dead process goes on")


def _hog(_: Act) -> Outcome:
    """As the kernel does with a process that takes all the memory: it is gone without a word."""
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115, PTH123
    resource.setrlimit(resource.RLIMIT_AS, (used + 64 * 1024 * 1024, resource.RLIM_INFINITY))
    taken = []
    try:
        while True:
            taken.append(bytearray(8 * 1024 * 1024))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a dead process goes on")


def _loop(_: Act) -> Outcome:
    """Never returns to the event loop. It need not compute for that, while other tests could."""
    while True:
        time.sleep(0.001)


def _exit(_: Act) -> Outcome:
    os._exit(1)


def _overrun(act: Act) -> Outcome:
    """Holds the whole process up, as a slow parser would; the next attempt is quick."""
    if act.flag and not os.path.exists(act.flag):  # noqa: PTH110
        open(act.flag, "w").close()  # noqa: PTH123
        time.sleep(act.block)
    return found(act)


_ENDS: dict[str, Callable[[Act], Any]] = {
    "well": found,
    "family": _family,
    "crowd": _crowd,
    "drop": lambda _: Drop("nobody needs it"),
    "halt": lambda _: Halt("a person must act"),
    "snooze": _snooze_until_flagged,
    "fail": lambda _: _raise(Permanent("it never works", cost=1)),
    "stumble": lambda _: _raise(Transient("it did not work this time")),
    "limited": lambda _: _raise(RateLimited("too many", retry_after=0.01)),
    "bug": lambda _: _raise(ZeroDivisionError("division by zero")),
    "nothing": lambda _: None,
    "vanish": lambda act: Done(
        records=(Deed(name=act.name, worth=1),),
        gone=(Gone(Deed(name=act.name, worth=2), "sold", {"status": 410}),),
        rejected=(Reject(Deed, "no worth", {"name": act.name}),),
        cost=1,
    ),
    "unstorable": lambda act: Done(records=(Deed(name=act.name, worth=2**80),), cost=1),
    "segfault": _segfault,
    "hog": _hog,
    "loop": _loop,
    "exit": _exit,
    "overrun": _overrun,
}
