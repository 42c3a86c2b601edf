"""The sinks that this process delivers: those configured by settings, and one for each row in the ledger.

Rows are read again every few seconds, so that a sink added or removed by another process begins or ends here as well. A
row that cannot be built here (its type is not installed, a setting is missing) is reported and skipped.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError

from forager.app.sink_filter import FilteredSink, conditions
from forager.core.clock import Clock
from forager.core.errors import Conflict, FieldError, ForagerError, Rejected, StoreError
from forager.core.ids import checked_name, no_such, sink_lane, unknown_choice
from forager.core.invalid import field_errors
from forager.core.record import Record
from forager.core.sink import Outbox, Sink, SinkRow, SinkStatus
from forager.engine.deliver import Deliveries, SinkDelivery
from forager.ledger.tables.sinks import SinkRows
from forager.sdk.feature import SinkFeature
from forager.sdk.service import SinkService

log = structlog.get_logger("forager.app")

LOOK_EVERY = 2.0
GRACE = 5.0
"""Seconds that a sink has to accept its current batch when it is removed."""


class SinkRoster:
    """Keeps `deliveries` in line with the settings and the rows."""

    def __init__(
        self,
        service: SinkService,
        types: Sequence[SinkFeature],
        rows: SinkRows,
        deliver: Callable[[Sink], SinkDelivery],
        clock: Clock,
    ) -> None:
        """Build the sinks that the settings configure. Raises `Rejected` if one of them cannot be built."""
        self.types = {each.name: each for each in types}
        self.problems: dict[str, str] = {}
        """Reasons why this process cannot deliver a sink, by sink."""
        self._service = service
        self._rows = rows
        self._deliver = deliver
        self._clock = clock
        self._refreshing = asyncio.Lock()
        given = [each.from_settings.load()(service) for each in types if each.from_settings is not None]
        self.given: Mapping[str, SinkRow] = {row.name: row for row in given if row is not None}
        """The sinks that the settings configure."""
        self._reserved = {each.name for each in types if each.from_settings is not None}
        """Names of sinks that the settings of another process may configure: these sinks are named after their type."""
        self.added: Mapping[str, SinkRow] = {}
        """The rows, as they were read last."""
        self.deliveries = Deliveries(deliver(self._built(row)) for row in self.given.values())

    @property
    def names(self) -> list[str]:
        """Every sink there is, also those that this process cannot deliver."""
        return sorted({*self.given, *self.added})

    def row(self, name: str) -> SinkRow | None:
        return self.given.get(name) or self.added.get(name)

    async def statuses(self) -> list[SinkStatus]:
        """Return the status of every sink. A change of a type with messages is delivered when its message is."""
        statuses = await self._rows.statuses(self.names)
        outboxes: dict[str, Outbox] = {}
        for name, kind in self.types.items():
            if kind.outboxes is not None:
                rows = [row for row in (*self.given.values(), *self.added.values()) if row.type == name]
                outboxes |= await kind.outboxes.load()(self._service.database, rows)
        now = await self._service.ledger.now()
        return [
            status.with_outbox(found, now) if (found := outboxes.get(status.name)) else status for status in statuses
        ]

    async def run(self) -> None:
        """Follow the rows until cancelled."""
        while True:
            await self._clock.sleep(LOOK_EVERY)
            try:
                await self.refresh()
            except StoreError as error:
                log.warning("sink_rows_unreadable", error=error.message)

    async def refresh(self) -> None:
        """Read the rows, and begin and end deliveries accordingly."""
        async with self._refreshing:
            rows = {row.name: row for row in await self._rows.all() if row.name not in self.given}
            before, self.added = self.added, rows
            for name in before:
                if rows.get(name) != before[name]:
                    self.problems.pop(name, None)
                    await self.deliveries.remove(name, GRACE)
            for name, row in rows.items():
                if name not in self.deliveries and name not in self.problems:
                    self._begin(row)

    async def add(self, row: SinkRow, *, after: int = 0, managed: bool = False) -> Sequence[str]:
        """Check a row, store it and begin to deliver after this change number. Returns warnings about what may keep it
        from delivering now. `managed`: a feature adds it, so its type need not be one that users may add.

        Raises `Rejected` if it cannot work, and `Conflict` if there is a sink of that name.
        """
        if row.name in self.given or row.name in self._reserved:
            raise Conflict(f"The name {row.name!r} belongs to a sink that settings configure. Choose another name.")
        checked = self._checked(row, managed=managed)
        self._built(checked)
        check = self._type(checked).check
        warnings = [] if check is None else await asyncio.to_thread(check.load(), self._service, checked)
        await self.refresh()
        is_new = row.name not in self.added
        if is_new:
            await self._service.ledger.pause_lane(sink_lane(row.name), paused=True)
        try:
            await self._rows.add(checked, after=after)
        finally:
            if is_new:
                await self._service.ledger.pause_lane(sink_lane(row.name), paused=False)
        await self.refresh()
        return warnings

    async def remove(self, name: str) -> None:
        """Remove a sink and all its rows. Raises `Conflict` if settings configure it, here or in another process."""
        if name in self.given:
            raise Conflict(f"The sink {name!r} is configured by settings. Take it out of these first, or pause it.")
        await self.refresh()
        if name in self.added:
            # Other processes use the row until they read the rows again; a paused lane ends their deliveries at once.
            await self._service.ledger.pause_lane(sink_lane(name), paused=True)
        elif await self._rows.is_delivered(name):
            raise Conflict(f"Another process delivers {name!r}: its settings configure this sink. Change them first.")
        await self._rows.remove(name)
        await self.refresh()  # ends the delivery here, so that it stores no position after this
        await self._rows.forget(name)

    # ── rows become sinks ──

    def _begin(self, row: SinkRow) -> None:
        try:
            self.deliveries.add(self._deliver(self._built(row)))
        except Exception as error:  # noqa: BLE001 - a defect of one type must not stop the sinks of others
            self.problems[row.name] = _message(error)
            log.warning("sink_not_deliverable", sink=row.name, error=self.problems[row.name])

    def _built(self, row: SinkRow) -> Sink:
        sink: Sink = self._type(row).build.load()(self._service, row)
        records = self._records()
        where = conditions(row, records)
        return FilteredSink(sink, row, where, records, self._service.database) if where else sink

    def _records(self) -> dict[str, type[Record]]:
        return {record.kind: record for pipeline in self._service.pipelines.values() for record in pipeline.records}

    def _type(self, row: SinkRow) -> SinkFeature:
        found = self.types.get(row.type)
        if found is None:
            known = f"There are: {', '.join(sorted(self.types))}."
            raise no_such("type of sink", row.type, self.types, known)
        return found

    def _checked(self, row: SinkRow, *, managed: bool) -> SinkRow:
        """Return the row with its options complete. Raises `Rejected` with all fields that are wrong."""
        records = self._records()
        complete = row

        def options() -> None:
            nonlocal complete
            complete = _with_options(row, self._type(row) if managed else self._type_to_add(row))

        _together(
            lambda: checked_name(row.name),
            options,
            lambda: _check_names("kinds", row.kinds, {"job", "task", *records}),
            lambda: _check_names("pipelines", row.pipelines, set(self._service.pipelines)),
            # A kind that does not exist is reported by itself: its condition cannot be checked.
            lambda: None if (row.kinds or set()) - records.keys() - {"job", "task"} else conditions(row, records),
        )
        return complete

    def _type_to_add(self, row: SinkRow) -> SinkFeature:
        addable = sorted(name for name, each in self.types.items() if each.addable)
        if row.type not in addable:
            if row.type not in self.types:
                raise _wrong("type", unknown_choice("type", row.type, addable))
            problem = f"sinks of the type {row.type!r} come from the settings alone and cannot be added"
            raise _wrong("type", f"{problem}; choose from {', '.join(addable)}")
        return self.types[row.type]


def _message(error: Exception) -> str:
    """Describe an error without the values that caused it: options may hold a URL with a token."""
    if isinstance(error, ForagerError):
        return error.message
    if isinstance(error, ValidationError):
        return "; ".join(f"options.{each.field}: {each.message}" for each in field_errors(error))
    return f"{type(error).__name__}: {error}"


def _together(*checks: Callable[[], object]) -> None:
    """Make all checks. Raises one `Rejected` with the fields that any of them found wrong, each once."""
    found: list[Rejected] = []
    for check in checks:
        try:
            check()
        except Rejected as wrong:
            found.append(wrong)
    if len(found) == 1:
        raise found[0]
    if found:
        fields = {each.field: each for wrong in reversed(found) for each in reversed(wrong.fields)}
        raise Rejected(" ".join(wrong.message for wrong in found), fields=list(reversed(fields.values())))


def _with_options(row: SinkRow, kind: SinkFeature) -> SinkRow:
    """Return the row with the defaults of the options that it leaves out. Raises `Rejected` with those that are
    wrong."""
    if kind.options is None:
        if row.options:
            raise _wrong("options", f"the type {row.type!r} takes no options")
        return row
    try:
        known: type[BaseModel] = kind.options.load()
        if unknown := sorted(set(row.options) - known.model_fields.keys()):
            problem = f"unknown option; choose from {', '.join(known.model_fields)}"
            raise _wrong(f"options.{unknown[0]}", problem)
        options: Any = known.model_validate(dict(row.options))
    except ValidationError as error:
        problems = [FieldError(f"options.{each.field}", each.message) for each in field_errors(error)]
        raise Rejected(f"{problems[0].field}: {problems[0].message}.", fields=problems) from error
    return replace(row, options=options.model_dump(mode="json"))


def _check_names(name: str, given: frozenset[str] | None, known: set[str]) -> None:
    if unknown := sorted((given or frozenset()) - known):
        raise _wrong(name, unknown_choice(name[:-1], unknown[0], known))


def _wrong(name: str, message: str) -> Rejected:
    return Rejected(f"{name}: {message}.", fields=[FieldError(name, message)])
