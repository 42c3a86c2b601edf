"""Portable SQL has `:name` values; PostgreSQL wants `$1`. Quoted text and casts (`::bigint`) stay as they are."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|::|:([A-Za-z_]\w*)")


def numbered(sql: str, values: Mapping[str, Any] | None) -> tuple[str, list[Any]]:
    """The statement with numbers, and its values in their order."""
    text, names = _rewritten(sql)
    have = values or {}
    return text, [have[name] for name in names]


@lru_cache(maxsize=1024)
def _rewritten(sql: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []

    def replace(token: re.Match[str]) -> str:
        name = token[1]
        if name is None:
            return token[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _TOKEN.sub(replace, sql), tuple(names)
