"""What is stored of pages that a person wants to be crawled again."""

from collections.abc import Sequence
from typing import Any

from forager.extract.canonical import url_hash
from forager.kit.queries import Database
from forager.pipelines.products.job import StoredPage

AT_ONCE = 1_000
"""Pages that are read by one query: a statement has a limited number of parameters."""
_COLUMNS = ("priority", "frequency", "recrawl", "max_retries", "render", "misses", "product_url")


async def stored_pages(db: Database, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Map each canonical URL to its `StoredPage` without the defaults; a page that was never crawled has only these."""
    pages: dict[str, dict[str, Any]] = {url: {} for url in urls}
    by_hash = {url_hash(url): url for url in pages}
    hashes = sorted(by_hash)
    for start in range(0, len(hashes), AT_ONCE):
        values = {f"hash{place}": each for place, each in enumerate(hashes[start : start + AT_ONCE])}
        marks = ", ".join(f":{mark}" for mark in values)
        rows = await db.fetch(f"SELECT url_hash, {', '.join(_COLUMNS)} FROM pages WHERE url_hash IN ({marks})", values)
        for row in rows:
            known = {name: row[name] for name in _COLUMNS if row[name] is not None}
            pages[by_hash[row["url_hash"]]] = StoredPage(**known).model_dump(exclude_defaults=True)
    return pages
