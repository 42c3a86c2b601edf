"""The SQL types of columns that a class declares."""

from typing import Any

from sqlalchemy import BigInteger, Float, Text
from sqlalchemy.types import JSON, Boolean, TypeEngine

from forager.kit.queries import Kind

_TYPES: dict[Kind, type[TypeEngine[Any]]] = {
    "text": Text,
    "boolean": Boolean,
    "bigint": BigInteger,
    "float": Float,
    "json": JSON,
}


def sql_type(kind: Kind) -> TypeEngine[Any]:
    return _TYPES[kind]()
