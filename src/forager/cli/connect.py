"""Which Forager a command talks to: the one that is running on this store, or one opened for this command alone.

The embedded store belongs to one process. If that process has an API, the command goes through it; if it has none, the
command ends with an error that names the process.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from forager.cli.host import AppEngine, quiet_log
from forager.cli.supervisor_lock import is_looked_after, locked_by_up
from forager.cli.transport import HttpTransport, LocalTransport
from forager.core.errors import StoreLocked
from forager.kit.cli import render
from forager.kit.cli.client import Api
from forager.kit.cli.invocation import Reached, StoreUse

if TYPE_CHECKING:
    from forager.settings import Settings

WAIT_FOR_OWNER = 3.0
"""How long to wait for the store while another short command has it open."""
WAIT_FOR_START = 30.0
"""How long to wait for the address of an `up` that is starting or restarting."""
LOOK_AGAIN_EVERY = 0.05
LOCAL_KEY = "in-process-call"
"""Service key of the in-process application. It cannot be called from outside, but still requires a key."""


@asynccontextmanager
async def reach(settings: "Settings", *, debug: bool = False, store: StoreUse = "existing") -> AsyncIterator[Reached]:
    """Yield the API for this store: that of a running Forager, or one opened for this command."""
    async with AsyncExitStack() as stack:
        yield await _first_that_answers(settings, stack, debug=debug, store=store)


def find_running(settings: "Settings") -> str | None:
    """Return the API's URL: from the settings, else from the lock of the process that owns this store; None if there is
    none."""
    from forager.ledger.sqlite.lock import read_owner

    if settings.api_url is not None:
        return settings.api_url
    if settings.database_url is not None:
        return None  # PostgreSQL supports many processes, so this one may open the store as well
    owner = read_owner(settings.home / "lock")
    return owner.url if owner else None


def service_key_for(settings: "Settings") -> str:
    """Return the service key that a Forager with these settings requires."""
    from forager.secrets.service_key import read_service_key

    if settings.service_key is not None:
        return settings.service_key.get_secret_value()
    return read_service_key(settings.home) or ""


def over_http(find: Callable[[], str | None], key: str) -> Api:
    """Yield the API of a running Forager; `find` returns its address."""
    return Api(HttpTransport(find), key)


@asynccontextmanager
async def in_process(
    settings: "Settings", *, debug: bool = False, store: StoreUse = "created"
) -> AsyncIterator[Reached]:
    """Open the store in this process and yield its API, which is called directly.

    Unless `store` is `created`, a missing store is an error: the folder or the database may be the wrong one.
    """
    from forager.api import create_api
    from forager.app import open_app

    quiet_log(debug=debug, settings=settings)
    async with open_app(settings, may_create=store == "created") as app:
        api = Api(LocalTransport(create_api(app, key=LOCAL_KEY)), LOCAL_KEY)
        # On PostgreSQL, other processes may work on the store without our noticing.
        yield Reached(api, AppEngine(app), is_alone=settings.database_url is None)


async def _first_that_answers(settings: "Settings", stack: AsyncExitStack, *, debug: bool, store: StoreUse) -> Reached:
    began = time.monotonic()
    if store != "created" and not _has_store(settings):
        if store == "existing":
            from forager.ledger.sqlite.lock import no_store

            raise no_store(settings.home)
        elsewhere = stack.enter_context(TemporaryDirectory(prefix="forager-"))
        settings, store = settings.model_copy(update={"home": Path(elsewhere)}), "created"
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
                    return await stack.enter_async_context(in_process(settings, debug=debug, store=store))
            except StoreLocked:
                if waited > WAIT_FOR_OWNER:
                    raise
        await asyncio.sleep(LOOK_AGAIN_EVERY)


def _has_store(settings: "Settings") -> bool:
    """Return False if the embedded store does not exist and no Forager that runs could have it."""
    from forager.ledger.sqlite.lock import has_store

    known = settings.database_url is not None or settings.api_url is not None
    return known or has_store(settings.home) or is_looked_after(settings.home)
