"""The application behind the command line: reads the settings, and reaches the API or opens the store.

Every command imports this module, so it imports nothing heavy: pydantic and the application are loaded when used.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from forager.kit.cli.invocation import Reached, StoreUse

if TYPE_CHECKING:
    from forager.app import App


class Application:
    """`Host` of the kit, for the Forager that is installed here."""

    def settings(self, overrides: Mapping[str, object]) -> Any:
        from forager.config import load_settings

        return load_settings(overrides)

    def reach(
        self, settings: Any, *, debug: bool, store: StoreUse = "existing"
    ) -> AbstractAsyncContextManager[Reached]:
        from forager.cli.connect import reach

        return reach(settings, debug=debug, store=store)


class AppEngine:
    """`LocalEngine` of the kit: the engine of an `App` that this process has opened."""

    def __init__(self, app: "App") -> None:
        self._app = app

    @asynccontextmanager
    async def running(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the engine. Raises `StoreMisplaced` if the pages that it would store belong to another ledger."""
        from forager.app.page_store import check_blobs

        await check_blobs(self._app.settings, self._app.database)
        async with self._app.engine(schedules=False) as task:
            yield task

    async def give_back(self) -> None:
        await self._app.worker.drain(0)

    async def has_notified(self) -> bool:
        return await self._app.has_delivered()


def quiet_log(*, debug: bool, settings: Any = None) -> None:
    """Log nothing below CRITICAL: a command prints its own messages. With `debug`, log everything; and if the settings
    name a level, log as they say."""
    from forager.logs import configure_logs

    if not debug and settings is not None and "log_level" in settings.model_fields_set:
        configure_logs(settings.log_level, settings.log_format, settings.secrets())
    else:
        configure_logs("DEBUG" if debug else "CRITICAL")
