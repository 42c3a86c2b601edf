"""The dispatch of a recheck in a process of its own, to be killed at a fail point. Its pages are small."""

from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Any

from forager.ledger.sqlite import append
from tests.support.fail_points import KillAt
from tests.support.forked import start_forked
from tests.support.rig_pipelines import RECHECK
from tests.support.sink_suite import open_store

PAGE = 5


@dataclass(frozen=True)
class Options:
    store: str
    point: str = ""
    """The fail point to die at, if any."""
    nth: int = 1
    broken: bool = False
    """Negative control: due times are cleared in a transaction of their own, before the tasks (SQLite only)."""


def break_the_page() -> None:
    """The due times of a page are gone for good before it has tasks."""
    whole = vars(append)["_set"]

    def cleared(db: Any, *given: Any) -> Any:
        ids = whole(db, *given)
        if ids:
            db.execute("COMMIT")
            db.execute("BEGIN IMMEDIATE")
            db.execute("SAVEPOINT command")
        return ids

    vars(append)["_set"] = cleared


async def dispatch(options: Options) -> None:
    if options.broken:
        break_the_page()
    engine = await open_store(options.store, create=False, faults=KillAt(options.point, options.nth))
    while (await engine.ledger.dispatch("rig", RECHECK, PAGE)).more:
        pass
    await engine.close()


def start(options: Options) -> ForkServerProcess:
    return start_forked(dispatch, options)
