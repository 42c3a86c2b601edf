"""The archive in a process of its own, to be killed at a fail point. Its files are small."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from forager.app.archive import JSON_LINES
from forager.core.clock import Faults, SystemClock
from forager.core.upkeep import OldRecord
from forager.engine.archive import Archiver
from forager.ledger.tables.pages import ArchiveTable
from forager.storage.folder import Folder
from tests.support.engine import EngineRig
from tests.support.fail_points import KillAt
from tests.support.forked import start_forked
from tests.support.rig_pipelines import catalog
from tests.support.sink_suite import open_store

AT_ONCE = 7


@dataclass(frozen=True)
class Options:
    store: str
    folder: str
    point: str = ""
    """The fail point to die at, if any."""
    nth: int = 1
    broken: bool = False
    """Negative control: the records are removed before their file is written."""


class RemovesFirst(Archiver):
    """A build that trusts the file to be written."""

    def _new_file(self, kind: str, records: Sequence[OldRecord]) -> Any:
        name = f"DELETE FROM rig_things WHERE id IN ({', '.join(str(record.id) for record in records)})"
        asyncio.run_coroutine_threadsafe(self._ledger.database.write(name), self.loop).result()  # type: ignore[attr-defined]
        return super()._new_file(kind, records)


def archiver(
    engine: EngineRig, folder: Path, faults: Faults | None = None, kind: type[Archiver] = Archiver
) -> Archiver:
    archives = ArchiveTable(engine.ledger.database, catalog(), engine.ledger.now_ms)
    place, clock = Folder(folder), SystemClock()
    more: Any = {"most": AT_ONCE, "abandoned_after": -1, "faults": faults}  # whoever wrote before is gone
    return kind(engine.ledger, archives, place, str(folder), JSON_LINES, clock, **more)


async def archive(options: Options) -> None:
    faults = KillAt(options.point, options.nth)
    engine = await open_store(options.store, create=False, faults=faults)
    mover = archiver(engine, Path(options.folder), faults, RemovesFirst if options.broken else Archiver)
    mover.loop = asyncio.get_running_loop()  # type: ignore[attr-defined]
    await mover.recover()
    before = await engine.ledger.now_ms() + 60_000
    moved = await mover.move("thing", before)
    while moved.more:
        moved = await mover.move("thing", before, moved.after)
    await engine.close()


def start(options: Options) -> ForkServerProcess:
    return start_forked(archive, options)
