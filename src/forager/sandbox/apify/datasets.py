"""Pages of a dataset: cut by offset and limit first, thinned by `clean` afterwards. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from forager.sandbox.apify import errors
from forager.sandbox.upstream import Reply
from forager.sandbox.wire import JSON

Row = dict[str, Any]
_LINES = b"application/x-ndjson; charset=utf-8"


def page_of_items(total: int, row: Callable[[int], Row], query: Mapping[str, str]) -> tuple[Reply, int]:
    """Return the answer to `GET …/items` and how many rows are in it.

    The pagination headers count rows before thinning, so that a page in the middle may be shorter than its limit.
    """
    offset, limit = query.get("offset", "0"), query.get("limit", "")
    if not offset.isdigit() or (limit and not limit.isdigit()):
        return errors.invalid_value("Parameters offset and limit must be whole numbers"), 0
    kind = query.get("format", "json")
    if kind not in ("json", "jsonl"):
        return errors.invalid_value(f"The sandbox gives items as json and jsonl, not as {kind}"), 0
    first, last = int(offset), total if not limit or limit == "0" else min(total, int(offset) + int(limit))
    numbers = range(total - 1 - first, total - 1 - last, -1) if _on(query, "desc") else range(first, last)
    rows = [_picked(row(number), query) for number in numbers]
    cut = len(rows)
    if _on(query, "clean") or _on(query, "skipEmpty"):
        rows = [each for each in rows if each]
    sizes = (("Offset", first), ("Limit", limit or 999_999_999_999), ("Count", len(rows)), ("Total", total))
    headers = "".join(f"X-Apify-Pagination-{name}: {value}\r\n" for name, value in sizes).encode()
    if kind == "jsonl":
        return Reply(200, b"".join(orjson.dumps(each) + b"\n" for each in rows), _LINES, headers), cut
    return Reply(200, orjson.dumps(rows), JSON, headers), cut


def _on(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in ("1", "true")


def _picked(row: Row, query: Mapping[str, str]) -> Row:
    if query.get("fields"):
        wanted = query["fields"].split(",")
        row = {name: row[name] for name in wanted if name in row}
    if query.get("omit"):
        unwanted = set(query["omit"].split(","))
        row = {name: value for name, value in row.items() if name not in unwanted}
    return row
