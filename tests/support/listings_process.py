"""Forager in a process of its own that is to be killed, with its rechecks and schedules."""

import asyncio
from multiprocessing.context import ForkServerProcess
from typing import Any

from forager.app.compose import open_app
from forager.app.config import new_settings
from tests.support.forked import start_forked


def start(settings: dict[str, Any]) -> ForkServerProcess:
    """A worker that runs until it is killed."""
    return start_forked(_work, settings)


async def _work(settings: dict[str, Any]) -> None:
    async with open_app(new_settings(**settings)) as app, app.engine():
        await asyncio.Event().wait()
