"""The rows of units, which triggers write with every change of a listing."""

import json
from typing import Any

from sqlalchemy import Connection, text

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.app.wiring import build_pipelines
from forager.ledger.catalog import Catalog
from forager.ledger.schema.connect import Store, in_transaction
from forager.ledger.schema.migrate import upgrade

UNITS = [{"beds": 1, "rent": 1500, "area": 500}, {"beds": 2, "area": 700}]
ADD = (
    "INSERT INTO listings (id, listing_key, version, first_seen_at, last_seen_at, times_seen, changed_at, units,"
    " rent_min, rent_max, beds_min, beds_max, baths_min, baths_max)"
    " VALUES (:id, :key, 1, 1, 1, 1, 1, :units, 1400, 1900, 1, 2, 1, 1)"
)
ROWS = "SELECT * FROM listing_units WHERE listing_id = :id ORDER BY number"


def add(db: Connection, number: int, units: list[dict[str, Any]] | None) -> None:
    shown = None if units is None else json.dumps(units)
    db.execute(text(ADD), {"id": number, "key": f"portal:{number}", "units": shown})


def rows(db: Connection, number: int) -> list[tuple[Any, ...]]:
    """The rows of a listing, without its number and their own."""
    return [tuple(row)[2:] for row in db.execute(text(ROWS), {"id": number}).fetchall()]


# rent, then the low and high end of beds, baths, rent and area. The second unit has no rent, and the first has one: it
# is unknown. No unit shows baths, so they are the building's.
OF_UNITS = [(1500, 1, 1, 1, 1, 1500, 1500, 500, 500), (None, 2, 2, 1, 1, None, None, 700, 700)]
OF_BUILDING = [(None, 1, 2, 1, 1, 1400, 1900, None, None)]


def test_triggers_keep_the_units_of_listings__LI_20(store: Store) -> None:
    catalog = Catalog([each for each in build_pipelines(new_settings(), FEATURES) if each.name == "listings"])
    upgrade(store, catalog)

    def changes(db: Connection) -> None:
        add(db, 1, UNITS)
        add(db, 2, None)
        assert (rows(db, 1), rows(db, 2)) == (OF_UNITS, OF_BUILDING)
        add(db, 3, UNITS)
        assert rows(db, 3) == OF_UNITS
        db.execute(text("UPDATE listings SET rent_min = 1900, times_seen = 2 WHERE id = 3"))
        assert rows(db, 3)[1] == (None, 2, 2, 1, 1, 1900, 1900, 700, 700), "the building has one rent now"
        db.execute(text("UPDATE listings SET units = NULL WHERE id = 1"))
        assert rows(db, 1) == OF_BUILDING
        db.execute(text("DELETE FROM listings WHERE id = 3"))
        assert rows(db, 3) == []

    in_transaction(store, changes)
