"""Encodes long arrays as parameters. The driver inspects each element of a list several times, but sends a text as it
is.

Numbers without NULL are sent in PostgreSQL's array syntax, which the statement casts: `$1::text::bigint[]`. Columns of
other types are sent as JSON, which the statement unpacks with `rows_from`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import orjson

from forager.core.errors import StoreError

T = TypeVar("T")


def numbers(values: Iterable[int]) -> str:
    """Return numbers (without NULL) in PostgreSQL's array syntax."""
    return f"{{{','.join(map(str, values))}}}"


def unless_all(usual: T, values: Sequence[T]) -> Sequence[T] | None:
    """Return None if every value is the usual one: `unnest` then yields NULLs, which the statement replaces by it."""
    return None if values.count(usual) == len(values) else values


def as_json(values: Sequence[Any]) -> str | None:
    """Encode a column of texts, numbers and booleans, or of JSON values; None if all are None."""
    if values[0] is None and values.count(None) == len(values):
        return None
    try:
        return orjson.dumps(values).decode()
    except TypeError as error:  # a number beyond 64 bits, half a character
        raise StoreError(f"The ledger refused a value: {error}") from error


def documents(values: Sequence[str | None]) -> str | None:
    """Encode a column of JSON texts, which are stored unchanged."""
    if values[0] is None and values.count(None) == len(values):
        return None
    return f"[{','.join(['null' if value is None else value for value in values])}]"


def rows_from(columns: Sequence[tuple[str, bool]], first: int = 1) -> str:
    """Return the FROM item that unpacks these columns, given as (name, whether it holds documents), from parameters in
    that order.

    A NULL parameter yields NULL for each row, as long as another parameter is not NULL. Scalars are text and must be
    cast.
    """
    calls = [
        f"json_array_elements{'' if documents_ else '_text'}(${n}::json)"
        for n, (_, documents_) in enumerate(columns, first)
    ]
    return f"ROWS FROM ({', '.join(calls)})"


def document(column: str) -> str:
    """Return SQL that maps a JSON null to NULL."""
    return f"CASE WHEN json_typeof({column}) <> 'null' THEN {column} END"
