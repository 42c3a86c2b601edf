"""Long arrays as parameters. The driver looks at each element of a list several times; one text it sends as it is.

Numbers of which none is NULL travel as PostgreSQL writes an array, and the statement casts them: `$1::text::bigint[]`.
Columns of any other kind travel as JSON, and the statement takes them apart with `rows_from`.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import orjson

from forager.core.errors import StoreError

T = TypeVar("T")


def numbers(values: Iterable[int]) -> str:
    """An array of numbers, none of them NULL, as PostgreSQL writes it."""
    return f"{{{','.join(map(str, values))}}}"


def unless_all(usual: T, values: Sequence[T]) -> Sequence[T] | None:
    """None if every value is the usual one: `unnest` then gives NULL for each, which the statement reads as that."""
    return None if values.count(usual) == len(values) else values


def as_json(values: Sequence[Any]) -> str | None:
    """A column of texts, numbers and truths, or of values that are to be JSON; None if it holds nothing."""
    if values[0] is None and values.count(None) == len(values):
        return None
    try:
        return orjson.dumps(values).decode()
    except TypeError as error:  # a number beyond 64 bits, half a character
        raise StoreError(f"The ledger refused a value: {error}") from error


def documents(values: Sequence[str | None]) -> str | None:
    """A column of JSON, each already written: it is stored to the letter."""
    if values[0] is None and values.count(None) == len(values):
        return None
    return f"[{','.join(['null' if value is None else value for value in values])}]"


def rows_from(columns: Sequence[tuple[str, bool]], first: int = 1) -> str:
    """The function of a FROM whose columns are (name, whether it holds documents), from parameters of that order.

    A parameter that is NULL gives NULL for each row, as long as another one is not. Scalars come as text, to be cast.
    """
    calls = [
        f"json_array_elements{'' if documents_ else '_text'}(${n}::json)"
        for n, (_, documents_) in enumerate(columns, first)
    ]
    return f"ROWS FROM ({', '.join(calls)})"


def document(column: str) -> str:
    """A JSON null stands for a value that is not there."""
    return f"CASE WHEN json_typeof({column}) <> 'null' THEN {column} END"
