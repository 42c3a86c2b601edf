"""Rules: conditions on the changes of any kind of record, whose matches are alerts. Shared by the pipelines that make
rules (`watches`) and the one that delivers alerts.

A rule fires when its condition becomes true: the record meets it now and did not before. A condition that compares with
the past (`old.price`, `changed(price)`, `change.op`) is an event by itself, and fires on every change that meets it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar, Literal

import orjson

from forager.core.change import Change, name_of
from forager.core.database import Database
from forager.core.errors import FieldError, NotFound, Rejected
from forager.core.ids import checked_name, near_names, unknown_choice
from forager.core.pipeline import Pipeline
from forager.core.record import Index, Record
from forager.core.table import TableRow
from forager.sdk.expressions import BadExpression, Expression, FieldType, compiled, fields_of
from forager.sdk.queries import insert_row, last_change, read_rows, states_before

JOB = "job"
WATCHED = "watched_page"
"""The record of a watch. What differs from the look before is in its field `difference`."""
JOB_FIELDS: Mapping[str, FieldType] = {
    "state": FieldType("text"),
    **{name: FieldType("number") for name in ("completed", "failed", "skipped", "cancelled", "records")},
}
"""Fields that a condition on the end of jobs can read."""
NESTED = "fields"
"""A record with this field of type object has fields of a user's schema: conditions read them by their own names."""
MOST_RULES = 1_000
MOST_CHANNELS = 20
AT_ONCE = 500
PREVIEWED = 20_000
"""Changes that a preview looks at, at most."""
DAY_MS = 86_400_000
ABOUT = ("op", "kind", "key", "pipeline", "version")
SchemaType = Literal["string", "number", "integer", "boolean", "array"]
_TYPES: Mapping[str, FieldType] = {
    "string": FieldType("text"),
    "number": FieldType("number"),
    "integer": FieldType("number"),
    "boolean": FieldType("boolean"),
    "array": FieldType("list"),
}


class AlertRule(TableRow):
    """A rule, as it is stored."""

    table: ClassVar[str] = "alert_rules"
    key: ClassVar[tuple[str, ...]] = ("name",)
    indexes: ClassVar[tuple[Index, ...]] = ()
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})

    name: str
    record_kind: str
    condition: str | None = None
    """None: every change of such a record."""
    subject: str | None = None
    """Only the record with this key."""
    fields: dict[str, Any] | None = None
    """Types of the fields that a schema adds to the record, by name, as a schema has them."""
    channels: list[str]
    repeats: bool = False
    """Fire on every change that meets the condition, not only when it becomes true."""
    since_change: int = 0
    """It looks at changes after this number."""
    paused: bool = False
    created_at: datetime | None = None


def kinds_of(pipelines: Mapping[str, Pipeline]) -> dict[str, type[Record]]:
    """Map each kind of record to its class."""
    return {record.kind: record for pipeline in pipelines.values() for record in pipeline.records}


def checked(rule: AlertRule, records: Mapping[str, type[Record]]) -> Expression | None:
    """Check a rule, and return its condition. Raises `Rejected`, naming the field and the position."""
    checked_name(rule.name)
    if rule.record_kind != JOB and rule.record_kind not in records:
        raise wrong("kind", unknown_choice("kind", rule.record_kind, {JOB, *records}))
    if rule.condition is None:
        return None
    try:
        return _compiled(rule.condition, rule.record_kind, orjson.dumps(rule.fields), _Classes(records))
    except BadExpression as error:
        raise wrong("when", str(error)) from error


class _Classes:
    """The record classes as an argument of a cached function: there is one set of them in a process."""

    def __init__(self, records: Mapping[str, type[Record]]) -> None:
        self.records = records

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Classes) and self.records == other.records

    def __hash__(self) -> int:
        return hash(frozenset(self.records))


@lru_cache(maxsize=2 * MOST_RULES)
def _compiled(text: str, kind: str, fields: bytes, classes: _Classes) -> Expression:
    known = dict(JOB_FIELDS) if kind == JOB else fields_of(classes.records[kind])
    known |= {name: _TYPES.get(str(type_), FieldType("json")) for name, type_ in (orjson.loads(fields) or {}).items()}
    return compiled(text, known)


def wrong(field: str, message: str) -> Rejected:
    return Rejected(f"{field}: {message}.", fields=[FieldError(field, message)])


# ── firing ──


def flat(body: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the values of a record and those of its schema."""
    nested = None if body is None else body.get(NESTED)
    return {**body, **nested} if body is not None and isinstance(nested, Mapping) else body


def fires(rule: AlertRule, condition: Expression | None, change: Change, old: Mapping[str, Any] | None) -> bool:
    """Return whether a change is an alert. `old`: the state before, None if there is none or it is not known."""
    if rule.subject is not None and change.key != rule.subject:
        return False
    now = flat(change.body)
    if now is None:
        return False
    if condition is None and change.kind == WATCHED:  # the first sight of a page is no change of it
        return change.op == "changed" and bool(now.get("difference"))
    if condition is None:
        return change.op == "changed" if rule.subject is not None else change.op in ("new", "changed")
    about_change = "change." in condition.text
    if change.op == "gone" and not about_change:
        return False
    before = flat(old)
    if not condition.matches(now, before, {name: getattr(change, name) for name in ABOUT}):
        return False
    if rule.repeats or condition.uses_old or about_change or change.op == "new":
        return True
    return before is None or not condition.matches(before)


class Past:
    """The states of records before each change of a batch, as the log has them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._states: dict[str, Mapping[str, Any] | None] = {}

    async def load(self, batch: Sequence[Change]) -> None:
        """Read the states before a batch. Records of job scope never change, so that there is none."""
        self._states = {}
        for kind in {change.kind for change in batch} - {JOB, "task"}:
            same = [change for change in batch if change.kind == kind and change.op != "new" and change.scope != "job"]
            found = await states_before(self._db, kind, {each.key for each in same}, batch[0].id) if same else {}
            self._states |= {f"{kind}/{key}": state for key, state in found.items()}

    def before(self, change: Change) -> Mapping[str, Any] | None:
        """Return the state before a change. Call it once for each change of the batch, in its order."""
        old = self._states.get(change.identity)
        self._states[change.identity] = change.body
        return old


@dataclass(frozen=True, slots=True)
class Preview:
    """Result of a rule on past changes."""

    changes: int
    """Changes of this kind that were examined."""
    fired: int
    first: Sequence[Change]
    """Some of those that would have fired."""
    whole: bool
    """True if all changes of the time were examined."""


async def preview(ledger: Any, rule: AlertRule, condition: Expression | None, now_ms: int, days: float = 7) -> Preview:
    """Run a rule over the changes of the last days."""
    db: Database = ledger.database
    after = await change_at(db, now_ms - round(days * DAY_MS))
    past, looked, fired = Past(db), 0, 0
    first: list[Change] = []
    batch: Sequence[Change] = ()
    while looked < PREVIEWED:
        batch = await ledger.changes(after, AT_ONCE, kinds={rule.record_kind})
        await past.load(batch)
        for change in batch:
            if fires(rule, condition, change, past.before(change)):
                fired += 1
                first.extend([change] if len(first) < 5 else [])
        looked += len(batch)
        if len(batch) < AT_ONCE:
            break
        after = batch[-1].id
    return Preview(looked, fired, first, len(batch) < AT_ONCE)


async def change_at(db: Database, at_ms: int) -> int:
    """Return the number of the last change before a moment. Numbers are dense and in the order of time, so halving
    finds it without an index on the time."""
    low, high = 0, await last_change(db)
    while low < high:
        middle = (low + high + 1) // 2
        rows = await db.fetch("SELECT at FROM changes WHERE id >= :id ORDER BY id LIMIT 1", {"id": middle})
        if rows and rows[0]["at"] < at_ms:
            low = middle
        else:
            high = middle - 1
    return low


# ── storing ──


async def add_rule(db: Database, rule: AlertRule, records: Mapping[str, type[Record]]) -> AlertRule:
    """Check a rule and store it: it looks at changes from now on. Raises `Rejected`, also if there is one of this name
    or a channel does not exist."""
    checked(rule, records)
    channels = {row["name"] for row in await db.fetch("SELECT name FROM notify_channels")}
    for name in rule.channels:
        if name not in channels:
            near = near_names(name, channels)
            hint = f"did you mean {near[0]!r}?" if near else "add it with `forager channels add`"
            raise wrong("notify", f"there is no channel {name!r}; {hint}")
    if not 1 <= len(rule.channels) <= MOST_CHANNELS:
        raise wrong("notify", f"give 1 to {MOST_CHANNELS} channels")
    counted = await db.fetch("SELECT count(*) AS n FROM alert_rules")
    if counted[0]["n"] >= MOST_RULES:
        raise wrong("name", f"there are {MOST_RULES:,} rules, which is the maximum; remove some first")
    stored = rule.model_copy(update={"since_change": await last_change(db)})
    if not await insert_row(db, stored):
        raise wrong("name", f"there is a rule {rule.name!r}; remove it first, or choose another name")
    return stored


async def rules_of(db: Database, channel: str | None = None) -> list[AlertRule]:
    """Return the rules, by name; only those that notify a channel, if one is given."""
    rules = await read_rows(db, AlertRule)
    return [rule for rule in rules if channel is None or channel in rule.channels]


async def one_rule(db: Database, name: str) -> AlertRule:
    """Raises `NotFound`."""
    found = await read_rows(db, AlertRule, "name = :name", {"name": name})
    if not found:
        raise NotFound(f"There is no rule {name!r}. See `forager rules list`.")
    return found[0]


# ── words ──


PLACEHOLDER = re.compile(r"\{([a-z_]{1,64})\}")
LONGEST_LINE = 300


def title_of(change: Change) -> str:
    """Return what names the record of a change: its title, name or address, on one line."""
    return name_of(change.body, change.key)[:LONGEST_LINE]


def difference_of(change: Change, old: Mapping[str, Any] | None, most: int = 8) -> list[str]:
    """Return the fields that differ from the state before, as lines such as `price: 60 → 45`."""
    now, before = flat(change.body) or {}, flat(old)
    if before is None:
        return []
    lines = []
    for name, value in now.items():
        if name not in (NESTED, "difference", "summary") and before.get(name) != value:
            lines.append(f"{name}: {shown(before.get(name))} → {shown(value)}")
    return lines[:most]


def shown(value: Any) -> str:
    """Return a value as a few words."""
    if value is None:
        return "unknown"
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:79]}…"


def filled(template: str, values: Mapping[str, Any]) -> str:
    """Fill `{name}` in a template. A name without a value stays empty; there is no other syntax."""
    return PLACEHOLDER.sub(lambda found: "" if (v := values.get(found[1])) is None else shown_whole(v), template)


def shown_whole(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
