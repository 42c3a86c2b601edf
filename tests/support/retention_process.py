"""Retention in a process of its own, to be killed at a fail point. Its pages are small."""

from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from typing import Any

from forager.core.upkeep import Keep
from forager.ledger.postgres import upkeep as postgres_upkeep
from forager.ledger.rules import upkeep as rules_upkeep
from forager.ledger.sqlite import upkeep as sqlite_upkeep
from tests.support.fail_points import KillAt
from tests.support.forked import start_forked
from tests.support.sink_suite import open_store

AGE = 1e-6
"""Seconds: whatever has ended is old at once."""
KEEP = Keep(jobs=AGE)
PAGE = 5


@dataclass(frozen=True)
class Options:
    store: str
    point: str = ""
    """The fail point to die at, if any."""
    nth: int = 1
    broken: bool = False
    """Negative control: tasks are removed in a transaction of their own, before their job (SQLite only)."""


def with_small_pages(size: int = PAGE) -> None:
    """Pages of a few rows, so that a few jobs take many of them; for the rest of this process."""
    texts = {"LIMIT 1000": f"LIMIT {size}", "LIMIT 5000": f"LIMIT {2 * size}", ">= 1000": f">= {size}"}
    for module in (rules_upkeep, sqlite_upkeep, postgres_upkeep):
        names = vars(module)
        names.update(PAGE=size, LOOKED_AT=2 * size)
        for name, value in list(names.items()):
            if isinstance(value, str) and name.startswith("_") and not name.startswith("__"):
                for text, instead in texts.items():
                    value = value.replace(text, instead)
                names[name] = value


def break_the_page() -> None:
    """The tasks of a job are gone for good before the job is."""
    whole = vars(sqlite_upkeep)["_clear"]

    def cleared(db: Any, job: int, limit: int) -> int:
        gone: int = whole(db, job, limit)
        db.execute("COMMIT")
        db.execute("BEGIN IMMEDIATE")
        db.execute("SAVEPOINT command")
        return gone

    vars(sqlite_upkeep)["_clear"] = cleared


async def prune(options: Options) -> None:
    with_small_pages()
    if options.broken:
        break_the_page()
    engine = await open_store(options.store, create=False, faults=KillAt(options.point, options.nth))
    while (await engine.ledger.prune(KEEP, [])).more:
        pass
    await engine.close()


def start(options: Options) -> ForkServerProcess:
    return start_forked(prune, options)
