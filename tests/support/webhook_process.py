"""Forager as `forager worker` runs it, in a process that dies at the point that a test chooses, with webhooks."""

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.change import Change
from forager.settings import Settings
from tests.support.forked import start_forked
from tests.support.webhooks import SECRET

ZIPS = "zip,state,city\n85001,AZ,Phoenix\n85002,AZ,Phoenix\n02139,MA,Cambridge\n"
Death = Literal["never", "before the messages are written", "before the cursor moves"]


@dataclass(frozen=True)
class Options:
    home: str
    serper: str
    key: str
    receiver: str
    death: Death = "never"
    broken: bool = False
    """Negative control: the cursor moves before the messages are written."""

    def settings(self) -> Settings:
        zips = Path(self.home) / "zips.csv"
        zips.write_text(ZIPS)
        return new_settings(
            home=Path(self.home),
            zip_table=zips,
            serper_api_key=SecretStr(self.key),
            serper_base_url=self.serper,
            egress_allow=(urlsplit(self.serper).netloc, urlsplit(self.receiver).netloc),
            webhook_secret=SecretStr(SECRET),
            default_webhook_url=SecretStr(self.receiver),
        )


class DyingSink:
    """The real sink, and the death of the options."""

    def __init__(self, app: App, options: Options) -> None:
        self._app = app
        self._real = app.deliveries["webhook"].sink
        self._options = options
        self.name, self.kinds = self._real.name, self._real.kinds

    async def write(self, batch: Sequence[Change]) -> bool | None:
        if self._options.broken:
            await self._app.sinks.advance(self.name, batch[-1].id)
        worth_dying_for = any(change.op == "ended" for change in batch)
        if self._options.death == "before the messages are written" and worth_dying_for:
            os.kill(os.getpid(), signal.SIGKILL)
        told = await self._real.write(batch)
        if self._options.death == "before the cursor moves" and worth_dying_for:
            os.kill(os.getpid(), signal.SIGKILL)
        return told


async def work(options: Options) -> None:
    async with open_app(options.settings()) as app:
        app.deliveries["webhook"].sink = DyingSink(app, options)
        async with app.engine():
            while await _something_left(app):
                await asyncio.sleep(0.05)


async def submit(options: Options, jobs: int) -> list[str]:
    async with open_app(options.settings()) as app:
        query = {"zips": ["85001"], "pages": 1}
        return [(await app.submit("places", {"keyword": f"bars {n}", **query})).job.hex for n in range(jobs)]


async def _something_left(app: App) -> bool:
    at = await app.sinks.position("webhook")
    return at.cursor < at.last or await app.ledger.has_work()


def start(options: Options) -> ForkServerProcess:
    return start_forked(work, options)
