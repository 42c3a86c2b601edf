"""Queries about stored pages of listings use indexes, on both stores, however small a table is."""

import re

from forager.pipelines.listings.reports import listings as reports
from tests.support.listings import Rentals

KEYS = ["x:1", "it's", 'a "quoted" one', "x:2"]


async def test_listings_and_candidates_are_read_through_indexes__LI_9(rentals: Rentals) -> None:
    database = rentals.app.database
    explain = "EXPLAIN QUERY PLAN" if database.dialect == "sqlite" else "EXPLAIN"
    lists = {"keys": KEYS, "zips": ["02139:40"], "cells": ["1:2:40", "1:3:40"]}
    for sql in (reports._KNOWN, reports._BY_KEY, reports._CANDIDATES, reports._SPLITS):
        named = {name: values for name, values in lists.items() if f":{name}" in sql}
        steps = [
            str(row.get("detail") or row.get("QUERY PLAN"))
            for row in await database.fetch_by_keys(f"{explain} {sql}", named)
        ]
        assert not [step for step in steps if re.search(r"Seq Scan|SCAN (l|s|o|listing\w*)\b", step)], steps


async def test_lists_of_keys_may_hold_anything_and_be_empty(rentals: Rentals) -> None:
    database = rentals.app.database
    for market in ("it's", 'a "quoted" one'):
        values = {"id": market}
        await database.write(
            "INSERT INTO market_configs (id, display_name, city, state) VALUES (:id, 'x', 'x', 'MA')", values
        )
    sql = "SELECT id FROM market_configs WHERE id IN :keys ORDER BY id"
    found = await database.fetch_by_keys(sql, {"keys": KEYS})
    assert [row["id"] for row in found] == ['a "quoted" one', "it's"]
    assert await database.fetch_by_keys(sql, {"keys": []}) == []
