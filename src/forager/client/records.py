"""Records in Python: `forager.read("products")` yields every product as a dict, or makes an Arrow table or a DataFrame.

It calls the Forager that runs on this store, if there is one, and opens the store itself otherwise, as commands do.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

from forager.core.errors import FieldError, Rejected

if TYPE_CHECKING:
    from forager.sdk.cli.invocation import Reached

Row = dict[str, Any]
CHANGED, FOUND = "changed_at", "first_seen_at"


def read(
    kind: str,
    *,
    since: datetime | None = None,
    as_of: datetime | None = None,
    job: str | None = None,
    where: Mapping[str, Any] | None = None,
    settings: Mapping[str, object] | None = None,
) -> "Records":
    """Return the records of a kind. Nothing is read before the result is iterated over or converted.

    `kind` may be in the plural (`products`). `since`: only records that are new or have changed since then. `as_of`:
    records as they were then. `job`: only those that this job found. `where`: filters, as in `GET /records/{kind}`.
    Times need a time zone. `settings` are added to those of the environment, `.env` and `forager.toml`.

    Iterating raises `Rejected` for an unknown kind or filter, and `StoreLocked` if another process without an API has
    the store open.
    """
    for name, moment in (("since", since), ("as_of", as_of)):
        if moment is not None and moment.tzinfo is None:
            raise Rejected(f"{name}: it needs a time zone.", fields=[FieldError(name, "it needs a time zone")])
    query = {**(where or {}), "as_of": as_of and as_of.isoformat(), "job": job}
    return Records(kind, query, since, dict(settings or {}))


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a kind. Every iteration reads them again, page by page: memory stays small."""

    kind: str
    _query: Mapping[str, Any]
    _since: datetime | None = None
    _settings: Mapping[str, object] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Row]:
        return rows_of(self._pages())

    def arrow(self) -> Any:
        """Return all records as a `pyarrow.Table`. Needs the package `pyarrow`."""
        return _package("pyarrow").Table.from_pylist(list(self))

    def pandas(self) -> Any:
        """Return all records as a `pandas.DataFrame`. Needs the package `pandas`."""
        return _package("pandas").DataFrame.from_records(list(self))

    async def _pages(self) -> AsyncGenerator[list[Row], None]:
        from forager.app.config import load_settings
        from forager.client.connect import reach
        from forager.sdk.cli.client import part

        async with reach(load_settings(self._settings)) as at:
            kind = await _known(at, self.kind)
            async for page in at.api.pages(f"/records/{part(kind)}", **self._query):
                yield page if self._since is None else [row for row in page if _changed(row) >= self._since]


def rows_of(pages: AsyncGenerator[list[Row], None]) -> Iterator[Row]:
    """Yield the rows of all pages, in a thread with a loop of its own: the caller may have a loop that is running, as a
    notebook has."""
    with ThreadPoolExecutor(1, thread_name_prefix="forager-read") as thread:
        runner = asyncio.Runner()
        try:
            while (page := thread.submit(runner.run, _next(pages)).result()) is not None:
                yield from page
        finally:
            thread.submit(runner.run, _close(pages)).result()
            thread.submit(runner.close).result()


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise Rejected(f"This needs the package {name}: pip install {name}") from error


async def _known(at: "Reached", kind: str) -> str:
    """Return the name of a kind, given in the singular or the plural. Raises `Rejected`, listing the kinds."""
    kinds = [each["kind"] for each in await at.api.get("/records")]
    for name in (kind, kind.removesuffix("s")):
        if name in kinds:
            return name
    message = f"unknown record kind {kind!r}; choose from {', '.join(kinds)}"
    raise Rejected(f"kind: {message}.", fields=[FieldError("kind", message)])


def _changed(row: Row) -> datetime:
    """Return the time of a record's last change. A record of job scope never changes after it was found."""
    return datetime.fromisoformat(row.get(CHANGED) or row[FOUND])


async def _next(pages: AsyncGenerator[list[Row], None]) -> list[Row] | None:
    return await anext(pages, None)


async def _close(pages: AsyncGenerator[list[Row], None]) -> None:
    await pages.aclose()
