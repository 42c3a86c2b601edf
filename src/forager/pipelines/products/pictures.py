"""The pictures of products: downloaded when the list on a page has changed, the same bytes stored once.

A recheck notices a product whose list has changed. One task per product then plans one task per picture, because a
picture is often on another host, with its own lane.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from pydantic import ConfigDict

from forager.core.errors import Permanent
from forager.core.hosts import host_of
from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Drop, Gone, Outcome
from forager.core.record import Record
from forager.core.states import ErrorType
from forager.core.task import Plan, Task
from forager.extract.image_size import image_size
from forager.extract.products.findings import MOST_IMAGES
from forager.pipelines.products.page_outcome import (
    GONE,
    NOT_A_PAGE,
    NOT_FOUND,
    refuse_unless_answered,
)
from forager.pipelines.products.records import Product
from forager.pipelines.products.tasks import CATALOGUE

LOWEST = 10
"""Pictures come after pages."""


class Picture(Record):
    """A picture of a product, at one place of its list."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "picture_key": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80/00",
                    "product_hash": "5d1c1e0a9ad9a7c1f0f2b7b4b3c9e3a2f3c1d0a4b5e6f708192a3b4c5d6e7f80",
                    "image_url": "https://shop.example/img/7-1.png",
                    "image_type": "primary",
                    "position": 0,
                    "width": 247,
                    "height": 202,
                }
            ]
        }
    )

    kind: ClassVar[str] = "picture"
    table: ClassVar[str] = "pictures"
    key_field: ClassVar[str] = "picture_key"
    blobs: ClassVar[tuple[str, ...]] = ("image_path",)

    picture_key: str
    product_hash: str
    image_url: str
    image_path: str | None = None
    """The stored file."""
    alt_text: str | None = None
    image_type: str | None = None
    position: int | None = None
    width: int | None = None
    height: int | None = None
    file_size: int | None = None


class Pictures(Task):
    """The list of a product's pictures."""

    kind: ClassVar[str] = "products.pictures"

    product_hash: str
    images: tuple[dict[str, Any], ...]
    listed_at: str | None = None
    """Time when this list was first seen."""

    def key(self) -> str:
        return self.product_hash

    def lane(self) -> str:
        return CATALOGUE


class FetchPicture(Task):
    """One picture that is to be downloaded."""

    kind: ClassVar[str] = "products.picture"

    product_hash: str
    position: int
    url: str
    alt: str | None = None
    type: str = "gallery"
    listed_at: str | None = None

    def key(self) -> str:
        """Another list is another download, also of an address that was in an earlier one."""
        return f"{picture_key(self.product_hash, self.position)}@{self.listed_at}"

    def lane(self) -> str:
        return host_of(self.url)


def picture_key(product_hash: str, position: int) -> str:
    """Pictures of a product sort by their place."""
    return f"{product_hash}/{position:02}"


def pictures_of(product: Product) -> Pictures:
    """Return the task of a product whose list has changed."""
    listed_at = product.pictures_due_at
    return Pictures(
        product_hash=product.url_hash,
        images=tuple(product.images or ()),
        listed_at=listed_at.isoformat() if isinstance(listed_at, datetime) else None,
    )


@dataclass(frozen=True, slots=True)
class Downloads:
    """Fetches pictures. Its methods are the steps."""

    most: int = MOST_IMAGES
    """Pictures of one product; 0: none."""
    max_bytes: int = 10 * 1024 * 1024
    timeout: float = 30.0

    async def plan(self, task: Pictures, _: Fetch) -> Outcome:
        """Return one task per picture. Places beyond the list are gone."""
        images = task.images[: self.most]
        plans = [
            Plan(
                FetchPicture(
                    product_hash=task.product_hash,
                    position=place,
                    url=image["url"],
                    alt=image.get("alt"),
                    type=image.get("type") or "gallery",
                    listed_at=task.listed_at,
                ),
                rank=LOWEST,
            )
            for place, image in enumerate(images)
        ]
        gone = [_gone(task.product_hash, place) for place in range(len(images), MOST_IMAGES)]
        return Done(tasks=plans, gone=gone, cost=0)

    async def fetch(self, task: FetchPicture, fetch: Fetch) -> Outcome:
        """Download a picture. One that is missing is skipped; a file that is not a picture is an error."""
        response = await fetch(Request(task.url, timeout=self.timeout, max_bytes=self.max_bytes, keep="bytes"))
        if response.status in GONE:
            return Drop(NOT_FOUND)
        refuse_unless_answered(response)
        size = image_size(response.body)
        if size is None:
            raise Permanent(
                f"{response.subject()} is not a picture that can be read (PNG, JPEG, GIF, WebP).",
                reason=NOT_A_PAGE,
                error_type=ErrorType.PARSE,
            )
        picture = Picture(
            picture_key=picture_key(task.product_hash, task.position),
            product_hash=task.product_hash,
            image_url=task.url,
            image_path=response.blob,
            alt_text=task.alt,
            image_type=task.type,
            position=task.position,
            width=size[0],
            height=size[1],
            file_size=len(response.body),
        )
        return Done(records=(picture,), cost=0, facts=response.facts())


def _gone(product_hash: str, place: int) -> Gone:
    picture = Picture(picture_key=picture_key(product_hash, place), product_hash=product_hash, image_url="")
    return Gone(picture, "not_listed")
