"""Upkeep of wrappers in a process of its own, to be killed before or after one of its statements."""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.database import Database
from forager.pipelines.products.wiring import learn
from tests.support.forked import start_forked


@dataclass(frozen=True)
class Options:
    home: str
    database_url: str | None
    nth: int = 0
    """The writing statement to die at; 0: none."""
    after: bool = False
    """Die after the statement was committed, not before it is sent."""


def kill_at(database: Database, nth: int, *, after: bool) -> None:
    whole, left = database.write, nth

    async def write(sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        nonlocal left
        left -= 1
        if left == 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        rows = await whole(sql, values)
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    vars(database)["write"] = write


async def upkeep(options: Options) -> None:
    home = Path(options.home)
    async with open_app(new_settings(home=home, database_url=options.database_url)) as app:
        await app.database.write("UPDATE site_looks SET looked_at = NULL")  # as if a day had passed
        if options.nth:
            kill_at(app.database, options.nth, after=options.after)
        while await learn(app) is not None:
            pass


def start(options: Options) -> ForkServerProcess:
    return start_forked(upkeep, options)
