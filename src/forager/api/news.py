"""Changes of records in words for people: the name of the record, and its changed fields with the values before and
what."""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.api.overview_report import ChangedField, ToldChange
from forager.app.application import App
from forager.ledger.reports import ChangeReport

TITLES = ("title", "product_name", "name", "display_name", "property_name", "address", "url", "text", "comment")
"""Fields whose value names a record for people. The first one that a record has is used."""
QUIET = frozenset(
    {"last_seen_at", "updated_at", "times_seen", "content_hash", "version", "next_at", "verify_at", "checked_at"}
)
"""Fields whose change is not news."""
MOST_FIELDS = 4
LONGEST = 60


async def told_changes(app: App, *, kinds: Sequence[str] = (), limit: int) -> list[ToldChange]:
    """Return the newest changes of records, newest first."""
    found = await app.reports.latest_changes(kinds=kinds, limit=limit)
    before = await app.reports.bodies_before([change for change in found if change.op == "changed"])
    return [told_change(change, before.get((change.kind, change.key, change.version))) for change in found]


def told_change(change: ChangeReport, before: Mapping[str, Any] | None) -> ToldChange:
    """Return a change in words; `before` is the record as it was, if that is known."""
    body = change.body or {}
    title = next((str(body[name]) for name in TITLES if body.get(name)), change.key)
    fields = changed_fields(before, body) if before is not None and change.op == "changed" else []
    lines = [f"{each.name.replace('_', ' ')} {shown(each.before)} → {shown(each.after)}" for each in fields]
    return ToldChange(
        id=change.id,
        kind=change.kind,
        key=change.key,
        op=change.op,
        title=title[:120],
        text=" · ".join(lines) or change.op,
        fields=fields,
        at=change.at,
    )


def changed_fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ChangedField]:
    """Return the first few fields that differ, in the order of the record."""
    names = [name for name in dict.fromkeys([*after, *before]) if name not in QUIET]
    differ = [name for name in names if before.get(name) != after.get(name)]
    return [ChangedField(name=name, before=before.get(name), after=after.get(name)) for name in differ[:MOST_FIELDS]]


def shown(value: Any) -> str:
    """Return a value as a few characters of text."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        return f"{len(value)} {'item' if len(value) == 1 else 'items'}"
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
