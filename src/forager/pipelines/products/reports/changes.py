"""Changes in the catalogue, field by field, and the distribution of its products."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import Field

from forager.core.database import Database
from forager.pipelines.products.records import Product
from forager.pipelines.products.reports.catalogue import CENT, SCALE, ProductConditions, conditions
from forager.pipelines.products.reports.search import FACETS, MOST_VALUES, Facets
from forager.sdk.queries import last_change, loads
from forager.sdk.reports import Report
from forager.sdk.service import Service

SHOWN = ("price", "currency", "availability", "product_name", "brand", "category", "rating", "review_count", "sku",
         "gtin", "description")  # fmt: skip
"""The fields whose changes are shown, the most important first."""
MOST_COUNTED = 50_000
"""Number of newest products that facets without a search count. It bounds their time in any catalogue."""
_LATEST = """
SELECT id, key, op, version, at, body FROM changes WHERE id > :after AND kind = :kind AND op <> 'new'
ORDER BY id DESC LIMIT :limit
"""
_BEFORE = """
SELECT body FROM changes WHERE kind = :kind AND key = :key AND version < :version AND body IS NOT NULL
ORDER BY version DESC LIMIT 1
"""
_LOOKED_AT = 20_000
"""Changes of all kinds that are searched for those of products."""


class FieldChange(Report):
    field: str
    before: Any
    now: Any


class ProductChange(Report):
    """One change of a product: what it was before, what it is now."""

    id: int = Field(description="Number of the change.")
    product_id: int | None
    product_name: str | None
    domain_name: str | None
    currency: str | None
    op: str = Field(description="changed or gone")
    at: datetime
    fields: list[FieldChange]


class CatalogueFacets(Report):
    total: int = Field(description="Products that were counted, at most 50,000.")
    facets: Facets


async def latest_changes(service: Service, limit: int) -> list[ProductChange]:
    """Return the newest changes with the version before each; a product that is new has none."""
    values = {"after": await last_change(service.database) - _LOOKED_AT, "kind": Product.kind, "limit": limit}
    found: list[ProductChange] = []
    for row in await service.database.fetch(_LATEST, values):
        asked = {"kind": Product.kind, "key": row["key"], "version": row["version"]}
        past = await service.database.fetch(_BEFORE, asked)
        before, now = (loads(past[0]["body"]) or {}) if past else {}, loads(row["body"]) or {}
        known = await service.database.fetch("SELECT id FROM items WHERE url_hash = :key", {"key": row["key"]})
        found.append(
            ProductChange(
                id=row["id"],
                product_id=known[0]["id"] if known else None,
                product_name=now.get("product_name") or before.get("product_name"),
                domain_name=now.get("domain") or before.get("domain"),
                currency=now.get("currency") or before.get("currency"),
                op=row["op"],
                at=row["at"],
                fields=_differences(before, now),
            )
        )
    return found


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[FieldChange]:
    return [
        FieldChange(field=name, before=before.get(name), now=now.get(name))
        for name in SHOWN
        if before.get(name) != now.get(name)
    ]


async def facets(db: Database, asked: ProductConditions) -> CatalogueFacets:
    """Count brands, categories, availability and shops of the products that meet the conditions."""
    only, values = conditions(asked, "i")
    where = f" WHERE {' AND '.join(only)}" if only else ""
    newest = f"SELECT {', '.join(FACETS)}, price FROM items i{where} ORDER BY i.id DESC LIMIT {MOST_COUNTED}"
    counted: dict[str, Any] = {}
    for name in FACETS:
        rows = await db.fetch(
            f"SELECT {name} AS value, count(*) AS n FROM ({newest}) w WHERE {name} IS NOT NULL"
            f" GROUP BY {name} ORDER BY n DESC, {name} LIMIT {MOST_VALUES}",
            values,
        )
        counted[name] = [(row["value"], row["n"]) for row in rows]
    (all_of,) = await db.fetch(f"SELECT count(*) AS n, min(price) AS low, max(price) AS high FROM ({newest}) w", values)
    return CatalogueFacets(
        total=all_of["n"], facets=Facets(**counted, price_min=_price(all_of["low"]), price_max=_price(all_of["high"]))
    )


def _price(scaled: int | None) -> Decimal | None:
    return None if scaled is None else (Decimal(scaled) / SCALE).quantize(CENT)
