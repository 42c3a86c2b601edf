"""How the command line shows pages that were read: the fields of one, a table or a JSON list of many."""

import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from forager.kit.cli import render
from forager.kit.cli.json_text import json_text

if TYPE_CHECKING:
    from rich.table import Table

CUT = 60
MOST_SHOWN = 1_000
"""Rows of a table. The pages of a longer file are counted, and their first ones are shown."""


@dataclass(slots=True)
class Tally:
    """Counts pages while they pass."""

    pages: int = 0
    failed: int = 0

    async def counted(self, pages: AsyncIterator[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
        async for page in pages:
            self.pages += 1
            self.failed += page["status"] != "completed"
            yield page


async def one_by_one(pages: AsyncIterator[dict[str, Any]]) -> AsyncIterator[list[Any]]:
    """Yield lists of one page, as a file of rows takes them."""
    async for page in pages:
        yield [page]


async def show_table(pages: AsyncIterator[dict[str, Any]]) -> None:
    """Print the first pages as a table."""
    table = render.table("page", "state", "found", fold=("page", "found"))
    count = 0
    async for page in pages:
        count += 1
        if count <= MOST_SHOWN:
            _add(table, page)
    render.out().print(table)
    if count > MOST_SHOWN:
        text = f"… and {count - MOST_SHOWN:,} more. Write all of them to a file: forager export scrape_result -o FILE"
        render.notes().print(text, markup=False, soft_wrap=True)


async def show_json_list(pages: AsyncIterator[dict[str, Any]]) -> None:
    """Print a JSON list, page by page: all of them might not fit into memory."""
    before = "[\n"
    async for page in pages:
        render.write(before + json_text(page, sys.stdout, indent=True))
        before = ",\n"
    render.write("[]\n" if before == "[\n" else "\n]\n")


def figures(result: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Field by field; one that was not found is a dash."""
    for name, value in result.items():
        yield name, render.plain(_short(value))


def _add(table: "Table", page: Mapping[str, Any]) -> None:
    found = page["error"]
    if page["result"] is not None:
        found = ", ".join(f"{name}: {_short(v)}" for name, v in page["result"].items() if v is not None)
    table.add_row(render.plain(page["target_url"]), render.state(page["status"]), render.plain(found))


def _short(value: Any) -> str | None:
    if isinstance(value, list):
        value = ", ".join(map(_entry, value))
    if value is None or value == "":
        return None
    if isinstance(value, Mapping):
        value = value.get("raw") or ", ".join(str(part) for part in value.values() if part)
    text = " ".join(str(value).split())
    return text if len(text) <= CUT * 4 else f"{text[: CUT * 4]}…"


def _entry(value: Any) -> str:
    """One of several values: a link as its URL, structured data as JSON."""
    if not isinstance(value, Mapping):
        return str(value)
    return str(value["url"]) if {"url", "text"} == value.keys() else orjson.dumps(value).decode()
