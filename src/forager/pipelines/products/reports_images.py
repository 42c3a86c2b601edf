"""The pictures of products as every list and every single product shows them: in one shape."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from forager.core.blobs import page_path
from forager.extract.products.findings import MOST_IMAGES
from forager.kit.queries import Database, Row, loads
from forager.kit.reports import Report
from forager.pipelines.products.pictures import picture_key

_FILE = ("width", "height", "file_size")
_FILES = f"""
SELECT product_hash, image_url, image_path, {", ".join(_FILE)} FROM pictures
WHERE picture_key IN :keys AND gone_at IS NULL
"""


class ImageReport(Report):
    """A picture of a product, in the order of the page."""

    image_url: str
    image_path: str | None = Field(description="The stored file in this API; null while it is not downloaded.")
    alt_text: str | None
    image_type: str = Field(description="primary, gallery or thumbnail.")
    position: int
    width: int | None
    height: int | None
    file_size: int | None = Field(description="Bytes.")


async def images_of(db: Database, rows: Sequence[Row]) -> dict[str, list[ImageReport]]:
    """Return the pictures of these rows of `items` by the product's hash, in the order of the page, each with its
    downloaded file. All files are read by one statement, by their keys."""
    listed: dict[str, list[dict[str, Any]]] = {row["url_hash"]: loads(row["images"]) or [] for row in rows}
    keys = [picture_key(key, place) for key, images in listed.items() for place in range(min(len(images), MOST_IMAGES))]
    stored = await db.fetch_by_keys(_FILES, {"keys": keys}) if keys else ()
    files = {(row["product_hash"], row["image_url"]): row for row in stored}
    return {
        key: [
            _report(image, position, files.get((key, image["url"])))
            for position, image in enumerate(images)
            if image.get("url")
        ]
        for key, images in listed.items()
    }


def _report(image: Mapping[str, Any], position: int, file: Row | None) -> ImageReport:
    return ImageReport(
        image_url=image["url"],
        alt_text=image.get("alt"),
        image_type=image.get("type") or "gallery",
        position=position,
        image_path=None if file is None else page_path(file["image_path"]),
        **{name: None if file is None else file[name] for name in _FILE},
    )
