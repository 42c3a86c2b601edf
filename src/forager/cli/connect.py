"""Which Forager a command talks to: the one that is running on this store, or one opened for this command alone.

The embedded store belongs to one process. If that process has an API, the command goes through it; if it has none, the
command ends with an error that names the process.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from forager.cli.host import AppEngine, quiet_log
from forager.cli.supervisor_lock import is_looked_after, locked_by_up
from forager.cli.transport import HttpTransport, LocalTransport
from forager.core.errors import StoreLocked
from forager.kit.cli import render
from forager.kit.cli.client import Api
from forager.kit.cli.invocation import Reached

if TYPE_CHECKING:
    from forager.settings import Settings

WAIT_FOR_OWNER = 3.0
"""A short command beside this one has the store for a moment."""
WAIT_FOR_START = 30.0
"""An `up` that is starting, or being started again, has no address yet."""
LOOK_AGAIN_EVERY = 0.05
LOCAL_KEY = "in-process-call"
"""The application of this process cannot be called from outside; it requires a key all the same."""


@asynccontextmanager
async def reach(settings: "Settings", *, debug: bool = False) -> AsyncIterator[Reached]:
    """The API of this store, wherever it answers."""
    async with AsyncExitStack() as stack:
        yield await _first_that_answers(settings, stack, debug=debug)


def find_running(settings: "Settings") -> str | None:
    """Where to ask: as the settings say, else where the owner of this store answers, if it has an API."""
    from forager.ledger.sqlite.lock import read_owner

    if settings.api_url is not None:
        return settings.api_url
    if settings.database_url is not None:
        return None  # PostgreSQL takes many processes: this one can be one more
    owner = read_owner(settings.home / "lock")
    return owner.url if owner else None


def service_key_for(settings: "Settings") -> str:
    """The key that a running Forager of these settings asks for."""
    from forager.secrets.service_key import read_service_key

    if settings.service_key is not None:
        return settings.service_key.get_secret_value()
    return read_service_key(settings.home) or ""


def over_http(find: Callable[[], str | None], key: str) -> Api:
    """The API of a running Forager; `find` returns its address."""
    return Api(HttpTransport(find), key)


@asynccontextmanager
async def in_process(settings: "Settings", *, debug: bool = False) -> AsyncIterator[Reached]:
    """A Forager of our own on this store, with its API called directly."""
    from forager.api import create_api
    from forager.app import open_app

    quiet_log(debug=debug)
    async with open_app(settings) as app:
        api = Api(LocalTransport(create_api(app, key=LOCAL_KEY)), LOCAL_KEY)
        # On PostgreSQL other processes may work on the store, unseen from here.
        yield Reached(api, AppEngine(app), is_alone=settings.database_url is None)


async def _first_that_answers(settings: "Settings", stack: AsyncExitStack, *, debug: bool) -> Reached:
    began = time.monotonic()
    while True:
        if find_running(settings) is not None:
            return Reached(over_http(lambda: find_running(settings), service_key_for(settings)))
        waited = time.monotonic() - began
        if settings.database_url is None and is_looked_after(settings.home):
            if waited > WAIT_FOR_START:
                raise locked_by_up(settings.home)
        else:
            try:
                with render.busy("Opening the store …"):
                    return await stack.enter_async_context(in_process(settings, debug=debug))
            except StoreLocked:
                if waited > WAIT_FOR_OWNER:
                    raise
        await asyncio.sleep(LOOK_AGAIN_EVERY)
