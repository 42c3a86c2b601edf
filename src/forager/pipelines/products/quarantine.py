"""How a quarantined field is merged: the last good value stays, the new one is held beside it. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from forager.extract.products.findings import FIELDS
from forager.pipelines.products.health import EVERYTHING

if TYPE_CHECKING:
    from forager.pipelines.products.records import Product

TOGETHER = {"price": ("price", "currency")}
"""A price and its currency are never taken from different visits."""


def reader_of(parser: str, version: int) -> str:
    """How marks name a parser version: `amazon/2`."""
    return f"{parser}/{version}"


def kept_values(now: "Product", before: "Product | None") -> dict[str, Any]:
    """What `derive` returns for a product with quarantined fields: their stored values, and in `held` the new ones.

    Only values of the parser versions in the marks are held back. Values that were held for a field which is no longer
    quarantined are dropped.
    """
    if before is None or not (before.quarantined or before.held):
        return {}
    names = _held_back(before.quarantined or {}, now)
    kept = {name: getattr(before, name) for name in names}
    held = {name: value for name, value in (before.held or {}).items() if name in names}
    for name in names:
        value = getattr(now, name)
        if value is not None and value != kept[name]:
            held[name] = {"value": str(value), "at": now.fetched_at.isoformat() if now.fetched_at else None}
    return {**kept, "held": held or None}


def _held_back(marks: Mapping[str, Sequence[str]], now: "Product") -> list[str]:
    if now.parser is None or now.parser_version is None:
        return []
    reader = reader_of(now.parser, now.parser_version)
    marked = {name for name, readers in marks.items() if reader in readers}
    if EVERYTHING in marked:
        return list(FIELDS)
    return [name for each in FIELDS if each in marked for name in TOGETHER.get(each, (each,))]
