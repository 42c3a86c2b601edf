"""Pauses and resumes lanes. A paused lane sends nothing new, whatever its rules. Part of the composition root."""

import contextlib
from typing import TYPE_CHECKING

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host
from forager.ledger.side_tables.domains import checked_name

if TYPE_CHECKING:
    from forager.app import App


async def switch_lane(app: "App", lane: str, *, active: bool) -> str:
    """Pause or resume a lane and return its name. Raises `Rejected` for a host that belongs to another lane."""
    name = await _itself(app, lane)
    if active:
        if await app.reports.lane(name) is not None:
            await app.ledger.pause_lane(name, paused=False)
        await _note(app, name, active=True)
    else:
        await _note(app, name, active=False)
        await app.ledger.pause_lane(name, paused=True)
    return name


async def belongs_to(app: "App", lane: str) -> str:
    """Return the name of an existing lane, else of the lane that a host of this name belongs to."""
    if await app.reports.lane(lane) is not None or app.rules.politeness.is_api(lane):
        return lane
    return app.rules.politeness.lane_name(checked_name(lane))


async def _itself(app: "App", lane: str) -> str:
    """Refuse a host that belongs to another lane: pausing it would either do nothing or stop other hosts as well."""
    await app.rules.refresh()
    name = await belongs_to(app, lane)
    if name not in (lane, _spelled(lane)):
        problem = FieldError("lane", f"belongs to the lane {name}; name that one")
        raise Rejected(f"{lane!r} {problem.message}, or give {lane} rules of its own first.", fields=[problem])
    return name


async def _note(app: "App", name: str, *, active: bool) -> None:
    """Record the switch in the table of domains too, unless the lane is an API's: its name is not a domain."""
    with contextlib.suppress(ValueError):
        if checked_host(name) == name:
            await app.domains.switch(name, active=active)
            await app.rules.refresh()


def _spelled(lane: str) -> str:
    try:
        return checked_host(lane)
    except ValueError:
        return lane
