"""A pipeline with a record that uses everything a record table can have, and a plain table. Its migrations are in this
folder."""

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Literal

from pydantic import BaseModel

from forager.core.pipeline import Pipeline, step
from forager.core.record import Clear, Index, Record
from forager.core.table import TableRow
from forager.core.task import Task


class Offer(Record):
    kind: ClassVar[str] = "offer"
    table: ClassVar[str] = "shop_offers"
    key_field: ClassVar[str] = "sku"
    quiet: ClassVar[frozenset[str]] = frozenset({"next_at"})
    indexes: ClassVar[tuple[Index, ...]] = (
        Index(("next_at", "sku"), where="next_at IS NOT NULL"),
        Index(("price DESC", "id"), where="gone_at IS NULL"),
    )
    sku: str
    price: Decimal | Clear | None = None
    stock: Literal["in", "out"] | None = None
    next_at: datetime | Clear | None = None


class Shop(TableRow):
    table: ClassVar[str] = "shops"
    key: ClassVar[tuple[str, ...]] = ("id",)
    stamped: ClassVar[frozenset[str]] = frozenset({"created_at"})
    indexes: ClassVar[tuple[Index, ...]] = (Index(("city",), where="is_enabled"),)
    id: str
    city: str
    tier: Literal["hot", "cool"] = "cool"
    is_enabled: bool = True
    failures: int = 0
    budget: Decimal = Decimal("2.50")
    tags: list[str] = []  # noqa: RUF012 - a default of a model, which pydantic copies
    last_at: datetime | None = None
    created_at: datetime | None = None


class Crawl(Task):
    kind: ClassVar[str] = "shop.crawl"
    url: str

    def key(self) -> str:
        return self.url

    def lane(self) -> str:
        return "shop"


async def _never_run(task: Any, fetch: Any) -> Any:
    raise AssertionError("only its tables are of interest")


shop = Pipeline(
    name="shop",
    params=BaseModel,
    plan=lambda job: (),
    steps=(step(Crawl, _never_run),),
    records=(Offer,),
    tables=(Shop,),
)
