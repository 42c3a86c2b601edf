"""What the ledger must know of items, worked out without it: the state machine compares both after every rule."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from forager.core.record import CLEAR
from tests.support.auditor import Row
from tests.support.rig import Item

QUIET = ("due", "etag")
TOLD = ("title", "price", "stock")


@dataclass
class Known:
    """One item."""

    item: Item
    version: int = 1
    seen: int = 1


class ItemModel:
    def __init__(self) -> None:
        self.items: dict[str, Known] = {}

    def settle(self, found: Iterable[Item]) -> None:
        """What one group of settlements found, in order: however often a thing is in it, that is one change."""
        changed: set[str] = set()
        for item in found:
            known = self.items.get(item.uid)
            if known is None:
                self.items[item.uid] = Known(_merged(None, item))
                changed.add(item.uid)
                continue
            before, known.item = known.item, _merged(known.item, item)
            known.seen += 1
            if _loud(before) != _loud(known.item) and item.uid not in changed:
                known.version += 1
                changed.add(item.uid)

    def differences(self, rows: dict[str, Row]) -> list[str]:
        expected = {uid: _row(known) for uid, known in self.items.items()}
        stored = {uid: {name: row[name] for name in expected.get(uid, row)} for uid, row in rows.items()}
        return [
            f"{uid}: expected {expected.get(uid)}, stored {stored.get(uid)}"
            for uid in expected.keys() | stored.keys()
            if expected.get(uid) != stored.get(uid)
        ]


def _merged(before: Item | None, told: Item) -> Item:
    kept = {name: getattr(before, name) for name in (*TOLD, *QUIET, "every")} if before else {}
    new = {name: value for name in (*TOLD, *QUIET) if (value := getattr(told, name)) is not None}
    merged = Item(uid=told.uid, **{name: None if v is CLEAR else v for name, v in {**kept, **new}.items()})
    return merged.model_copy(update=dict(merged.derive(before)))


def _loud(item: Item) -> tuple[object, ...]:
    return tuple(getattr(item, name) for name in (*TOLD, "content"))


def _row(known: Known) -> Row:
    item = known.item
    return {
        "title": item.title,
        "price": None if item.price is None else int(Decimal(str(item.price)) * 10_000),
        "stock": item.stock,
        "due": None if item.due is None else round(item.due.timestamp() * 1000),  # type: ignore[union-attr]
        "etag": item.etag,
        "every": item.every,
        "content": item.content,
        "version": known.version,
        "times_seen": known.seen,
    }
