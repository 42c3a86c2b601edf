"""A sink behind a condition: it gets the changes of records that meet it, and no others.

The state before a change (`old.price`) is that of the change before it in the log. Where retention has removed that
change, it is not known, and a condition that reads it does not match.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.core.change import Change
from forager.core.database import Database
from forager.core.errors import FieldError, Rejected
from forager.core.record import Record
from forager.core.sink import Sink, SinkRow
from forager.sdk.expressions import BadExpression, Expression, compiled, fields_of
from forager.sdk.queries import states_before


def conditions(row: SinkRow, records: Mapping[str, type[Record]]) -> dict[str, Expression]:
    """Return the condition of a row, checked for each of its kinds. Raises `Rejected` with the position of what is
    wrong."""
    if row.where is None:
        return {}
    if not row.kinds or not row.kinds <= records.keys():
        raise _wrong("a condition needs the kinds of records that it is about: --kind product")
    checked = {}
    for kind in sorted(row.kinds):
        try:
            checked[kind] = compiled(row.where, fields_of(records[kind]))
        except BadExpression as error:
            of_kind = f" of {kind}" if len(row.kinds) > 1 else ""
            raise _wrong(f"{error}{of_kind}") from error
    return checked


class FilteredSink:
    """The real sink, behind the condition of its row. Everything but `write` is the real sink's."""

    pipelines = None
    """None: the engine passes on the changes of all pipelines, because each change has the previous state of the record
    for the next one. `write` then leaves out those of other pipelines."""

    def __init__(
        self,
        real: Sink,
        row: SinkRow,
        where: Mapping[str, Expression],
        records: Mapping[str, type[Record]],
        db: Database,
    ) -> None:
        self.name, self.kinds = real.name, frozenset(where)
        self._real = real
        self._row = row
        self._where = where
        self._records = records
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def write(self, batch: Sequence[Change]) -> bool | None:
        """Deliver the changes that meet the condition. Returns False if no change meets it."""
        before = await self._before(batch)
        chosen = []
        for change in batch:
            now = change.body
            if now is not None and self._is_wanted(change, now, before.get(change.identity)):
                chosen.append(change)
            before[change.identity] = now
        return await self._real.write(chosen) if chosen else False

    def _is_wanted(self, change: Change, now: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
        if self._row.pipelines is not None and change.pipeline not in self._row.pipelines:
            return False
        about = {name: getattr(change, name) for name in ("op", "kind", "key", "pipeline", "version")}
        return self._where[change.kind].matches(now, old, about)

    async def _before(self, batch: Sequence[Change]) -> dict[str, Mapping[str, Any] | None]:
        """Return, by identity, the state of each record before the batch, as far as the log has it. Records of job
        scope never change, so that there is no such record."""
        found: dict[str, Mapping[str, Any] | None] = {}
        for kind, where in self._where.items():
            if not where.uses_old or self._records[kind].scope == "job":
                continue
            keys = {change.key for change in batch if change.kind == kind and change.op != "new"}
            states = await states_before(self._db, kind, keys, batch[0].id)
            found |= {f"{kind}/{key}": state for key, state in states.items()}
        return found


def _wrong(message: str) -> Rejected:
    return Rejected(f"where: {message}.", fields=[FieldError("where", message)])
