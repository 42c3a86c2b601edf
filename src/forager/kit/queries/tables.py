"""Reads and writes plain tables through the query port, for a pipeline's admin routes and commands.

A step changes a plain table with `Done(effects=…)`; the ledger applies effects with the statements of this file.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from forager.core.database import Database, Row
from forager.core.table import Effect, TableRow
from forager.kit.queries.columns import columns_of

R = TypeVar("R", bound=TableRow)


async def read_rows(
    db: Database, row: type[R], where: str = "TRUE", values: Mapping[str, Any] | None = None, *, order: str = ""
) -> list[R]:
    """Return the rows that meet a condition in portable SQL, sorted by the table's key unless another order is given.

    Values in the condition must be in their stored form: milliseconds, scaled money
    (`columns_of(row)[name].encoded(…)`).
    """
    by = order or ", ".join(f'"{column}"' for column in row.key)
    rows = await db.fetch(f"SELECT {_names(row)} FROM {row.table} WHERE {where} ORDER BY {by}", values)
    return [decoded(row, each) for each in rows]


async def one_row(db: Database, row: type[R], **key: Any) -> R | None:
    """Return the row with this key, or None."""
    write = RowWrite.of(Effect(row, key))
    rows = await db.fetch(f"SELECT {_names(row)} FROM {row.table} WHERE {write.where}", write.values)
    return decoded(row, rows[0]) if rows else None


async def insert_row(db: Database, row: TableRow) -> bool:
    """Insert a row. Returns False, and writes nothing, if its key exists. A None takes the column's default."""
    given = {name: value for name in type(row).model_fields if (value := getattr(row, name)) is not None}
    columns = columns_of(type(row))
    names, marks = ", ".join(f'"{name}"' for name in given), ", ".join(f":{name}" for name in given)
    key = ", ".join(f'"{column}"' for column in row.key)
    written = await db.write(
        f"INSERT INTO {row.table} ({names}) VALUES ({marks}) ON CONFLICT ({key}) DO NOTHING RETURNING 1 AS one",
        {name: columns[name].encoded(value) for name, value in given.items()},
    )
    return bool(written)


async def change_row(db: Database, effect: Effect) -> bool:
    """Apply an effect in its own transaction. Returns False if there is no such row and the effect does not create
    one."""
    write = RowWrite.of(effect)
    return bool(await db.write(f"{write.sql} RETURNING 1 AS one", write.values))


async def remove_row(db: Database, row: type[TableRow], **key: Any) -> bool:
    """Delete the row with this key. Returns False if there is none."""
    write = RowWrite.of(Effect(row, key))
    return bool(await db.write(f"DELETE FROM {row.table} WHERE {write.where} RETURNING 1 AS one", write.values))


def decoded(row: type[R], stored: Row) -> R:
    """Return a stored row as an instance of its class. Raises pydantic's `ValidationError` if the row holds an invalid
    value."""
    return row(**{name: column.decoded(stored[name]) for name, column in columns_of(row).items()})


@dataclass(slots=True)
class RowWrite:
    """One statement on one row, with encoded values."""

    row: type[TableRow]
    key: dict[str, Any]
    insert: bool
    add: dict[str, Any] = field(default_factory=dict)
    set: dict[str, Any] = field(default_factory=dict)
    fill: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, effect: Effect) -> "RowWrite":
        columns = columns_of(effect.row)
        write = cls(
            effect.row, {name: columns[name].encoded(effect.key[name]) for name in effect.row.key}, effect.insert
        )
        write.then(effect)
        return write

    def then(self, effect: Effect) -> None:
        """Return a write that does this one and then the other, on the same row."""
        columns = columns_of(self.row)
        for name, number in effect.add.items():
            more = columns[name].encoded(number)
            if name in self.set:
                self.set[name] = (self.set[name] or 0) + more
            else:
                self.add[name] = self.add.get(name, 0) + more
        for name, value in effect.set.items():
            self.set[name] = columns[name].encoded(value)
            self.add.pop(name, None)
            self.fill.pop(name, None)
        for name, value in effect.fill.items():
            if name in self.add:  # the sum is no NULL
                continue
            if name not in self.set:
                self.fill.setdefault(name, columns[name].encoded(value))
            elif self.set[name] is None:
                self.set[name] = columns[name].encoded(value)

    @property
    def where(self) -> str:
        return " AND ".join(f'"{name}" = :key_{name}' for name in self.key)

    @property
    def sql(self) -> str:
        return self._upsert() if self.insert else self._update()

    @property
    def values(self) -> dict[str, Any]:
        values = {f"key_{name}": value for name, value in self.key.items()}
        values |= {f"set_{name}": value for name, value in self.set.items()}
        values |= {f"add_{name}": value for name, value in self.add.items()}
        values |= {f"fill_{name}": value for name, value in self.fill.items()}
        if self.insert:
            values |= {f"new_{name}": self._default(name) + value for name, value in self.add.items()}
        return values

    def _update(self) -> str:
        added = [f'"{name}" = coalesce("{name}", 0) + :add_{name}' for name in sorted(self.add)]
        given = [f'"{name}" = :set_{name}' for name in sorted(self.set)]
        given += [f'"{name}" = coalesce("{name}", :fill_{name})' for name in sorted(self.fill)]
        # A statement without a change still reports whether the row exists.
        same = f'"{self.row.key[0]}" = "{self.row.key[0]}"'
        return f"UPDATE {self.row.table} SET {', '.join([*added, *given]) or same} WHERE {self.where}"

    def _upsert(self) -> str:
        table, key = self.row.table, ", ".join(f'"{name}"' for name in self.key)
        marks = {name: f":key_{name}" for name in self.key}
        marks |= {name: f":new_{name}" for name in sorted(self.add)}
        marks |= {name: f":set_{name}" for name in sorted(self.set)}
        marks |= {name: f":fill_{name}" for name in sorted(self.fill)}
        names = ", ".join(f'"{name}"' for name in marks)
        added = [f'"{name}" = coalesce({table}."{name}", 0) + :add_{name}' for name in sorted(self.add)]
        given = [f'"{name}" = excluded."{name}"' for name in sorted(self.set)]
        given += [f'"{name}" = coalesce({table}."{name}", excluded."{name}")' for name in sorted(self.fill)]
        same = f'"{self.row.key[0]}" = excluded."{self.row.key[0]}"'
        return (
            f"INSERT INTO {table} ({names}) VALUES ({', '.join(marks.values())})"
            f" ON CONFLICT ({key}) DO UPDATE SET {', '.join([*added, *given]) or same}"
        )

    def _default(self, name: str) -> Any:
        default = self.row.model_fields[name].get_default()
        column = columns_of(self.row)[name]
        return 0 if default is None or self.row.model_fields[name].is_required() else column.encoded(default)


def folded(effects: Iterable[Effect]) -> list[RowWrite]:
    """Return the statements for these effects, merged to one per row where possible. They are sorted by table and key,
    so that concurrent transactions lock the same rows in the same order."""
    writes: dict[tuple[str, str], list[RowWrite]] = {}
    for effect in effects:
        write = RowWrite.of(effect)
        own = writes.setdefault((effect.row.table, repr(write.key)), [])
        # Do not merge an update with a later insert: the update must not become part of a new row, and whether the row
        # exists is not known here. Nor a number that is added to a column which the statement before may fill in.
        if own and own[-1].insert == effect.insert and not own[-1].fill.keys() & effect.add.keys():
            own[-1].then(effect)
        else:
            own.append(write)
    return [write for name in sorted(writes) for write in writes[name]]


def _names(row: type[TableRow]) -> str:
    return ", ".join(f'"{name}"' for name in row.model_fields)
