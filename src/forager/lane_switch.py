"""Pauses and resumes lanes. A paused lane sends nothing new, whatever its rules. Part of the composition root."""

import contextlib
from typing import TYPE_CHECKING

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host
from forager.core.lane_names import SINK_LANES
from forager.core.names import no_such
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


async def require_known(app: "App", lane: str, *, new: bool = False) -> None:
    """Raise `NotFound` for a lane that no job has used and no source has rules for: most likely a typing mistake. With
    `new`, a host may be named before its first request."""
    await app.rules.refresh()
    name = await belongs_to(app, lane)
    if new or name in app.rules.politeness.names() or await app.reports.lane(name) is not None:
        return
    if await app.domains.get(name) is not None:
        return
    remedy = f"See `forager lanes list`. For a site that no job has used yet: {lane} --new (`?new=true` in the API)."
    raise no_such("lane", lane, await _known_lanes(app), remedy)


async def require_host(app: "App", lane: str) -> None:
    """Raise `NotFound` for a name that is no lane and no host on the web either, such as a mistyped API."""
    if not any(sign in lane for sign in ".:") and lane != "localhost":
        await require_known(app, lane)


async def _known_lanes(app: "App") -> set[str]:
    rows = await app.database.fetch("SELECT name FROM lanes ORDER BY name LIMIT 10000")
    used = {row["name"] for row in rows if not row["name"].startswith(SINK_LANES)}
    return used | app.rules.politeness.names()


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
