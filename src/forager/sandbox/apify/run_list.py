"""`GET /v2/acts/{actor}/runs`: the runs of an actor by status and time. Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from forager.sandbox.apify import shapes
from forager.sandbox.apify.config import ApifyConfig
from forager.sandbox.apify.runs import NEVER, Run

_MOST = 1000


def page_of_runs(
    runs: Iterable[Run], query: Mapping[str, str], offset: int, moment: float, config: ApifyConfig
) -> dict[str, Any] | None:
    """The page that the query asks for; None if one of its dates cannot be read."""
    after, before = _moment(query.get("startedAfter"), -NEVER), _moment(query.get("startedBefore"), NEVER)
    if after is None or before is None:
        return None
    listed = [run for run in runs if after <= run.started <= before]
    if "status" in query:
        wanted = query["status"].split(",")
        listed = [run for run in listed if run.state(moment, config).status in wanted]
    desc = query.get("desc", "").lower() in ("1", "true")
    limit = query.get("limit", "")
    most = min(int(limit), _MOST) if limit.isdigit() and int(limit) else _MOST
    chosen = (listed[::-1] if desc else listed)[offset : offset + most]
    rows = [shapes.run_summary(run, run.state(moment, config), config, with_usage=True) for run in chosen]
    return {"total": len(listed), "offset": offset, "limit": most, "count": len(rows), "desc": desc, "items": rows}


def _moment(text: str | None, default: float) -> float | None:
    """Seconds since 1970 of a date in ISO 8601; None if the text is not such a date."""
    if text is None:
        return default
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
