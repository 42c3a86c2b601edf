"""A model of the ledger's items, computed without it: the state machine compares both after every rule."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from forager.core.ledger import Extras, Settlement
from forager.core.record import CLEAR
from tests.support.auditor import Row
from tests.support.rig_pipelines import Item

QUIET = ("due", "etag")
TOLD = ("title", "price", "stock")


@dataclass
class Known:
    """One item."""

    item: Item
    version: int = 1
    """As it was stored last …"""
    events: int = 1
    """… and the number of changes logged for it since: at least one new version if any, at most one for each."""
    seen: int = 1
    gone: str | None = None


class ItemModel:
    def __init__(self) -> None:
        self.items: dict[str, Known] = {}

    def settle(self, accepted: Iterable[Settlement]) -> None:
        """The updates of items by a group of settlements, in order."""
        for settlement in accepted:
            extras = settlement.extras or Extras()
            for item in settlement.records:
                if isinstance(item, Item):
                    self._see(item)
            for item in extras.updates:
                if isinstance(item, Item) and (known := self.items.get(item.uid)) is not None:
                    self._merge(known, item)
            for gone in extras.gone:
                if isinstance(gone.record, Item) and (known := self.items.get(gone.record.uid)) is not None:
                    self._merge(known, gone.record)
                    if known.gone is None:
                        known.gone = gone.reason
                        known.events += 1

    def pass_time(self, seconds: float) -> None:
        """Due times move into the past where the store's clock cannot move on."""
        for known in self.items.values():
            if isinstance(known.item.due, datetime):
                known.item = known.item.model_copy(update={"due": known.item.due - timedelta(seconds=seconds)})

    def due(self, now: datetime) -> list[str]:
        """The items whose time has come."""
        return [u for u, known in self.items.items() if isinstance(known.item.due, datetime) and known.item.due <= now]

    def clear_due(self, uids: Collection[str]) -> None:
        """A recheck has turned these into tasks."""
        for uid in uids:
            known = self.items[uid]
            known.item = known.item.model_copy(update={"due": None})

    def differences(self, rows: dict[str, Row]) -> list[str]:
        """Return the differences from the tables. Remembers the versions that are stored now."""
        found = []
        for uid in self.items.keys() | rows.keys():
            known, row = self.items.get(uid), rows.get(uid, {})
            expected = {} if known is None else _row(known)
            stored = {name: row.get(name) for name in expected}
            if known is None or stored != expected:
                found.append(f"{uid}: expected {expected}, stored {stored or row}")
            elif not min(known.events, 1) <= row["version"] - known.version <= known.events:
                found.append(f"{uid}: version {row['version']} after {known.version} and {known.events} changes")
            else:
                known.version, known.events = row["version"], 0
        return found

    def _see(self, item: Item) -> None:
        known = self.items.get(item.uid)
        if known is None:
            self.items[item.uid] = Known(_merged(None, item), version=0)
            return
        self._merge(known, item)
        known.seen += 1
        if known.gone is not None:
            known.gone = None
            known.events += 1

    @staticmethod
    def _merge(known: Known, item: Item) -> None:
        before, known.item = known.item, _merged(known.item, item)
        known.events += _loud(before) != _loud(known.item)


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
        "times_seen": known.seen,
        "gone_reason": known.gone,
    }
