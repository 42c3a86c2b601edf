"""Forager as a source of dlt: `pip install 'forager-data[dlt]'`, then any of dlt's destinations.

```python
import dlt
from forager.dlt import forager_source

pipeline = dlt.pipeline("prices", destination="duckdb", dataset_name="forager")
pipeline.run(forager_source("product", "listing"))
```

A resource per kind of record, incremental by the number of the change: a run loads what has changed since the last one,
merges it by key, and deletes the rows of records that are gone. It must not be imported by Forager itself.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any

import dlt

from forager.client.records import Row, rows_of
from forager.core.errors import Rejected

PAGE = 1_000
"""Changes that are read at once."""
TOGETHER = 10
"""Pages that are read while the store is open."""
KEY, JOB = "record_key", "change_job"


def forager_source(*kinds: str, settings: Mapping[str, object] | None = None) -> Any:
    """Return a dlt source with a resource per kind: `product`, `place`, `listing`, …; all kinds if none is named.

    It calls the Forager that runs on this store, if there is one, and opens the store itself otherwise, as commands do;
    `settings` are added to those of the environment, `.env` and `forager.toml`. Raises `Rejected` for an unknown kind.

    A row has the fields of the record, `record_key`, and `change_id`, `change_op`, `change_version`, `change_at`,
    `change_job` and `is_gone`. Lists and objects are JSON columns. A kind with a record per job (`sighting`, `review`)
    is merged by job and key.
    """
    chosen = dict(settings or {})
    known = {each["kind"]: bool(each["per_job"]) for each in rows_of(_kinds(chosen))}
    if unknown := sorted(set(kinds) - set(known)):
        raise Rejected(f"kinds: unknown record kind {unknown[0]!r}; choose from {', '.join(known)}.")

    @dlt.source(name="forager", max_table_nesting=0)
    def source() -> Iterator[Any]:
        for kind in kinds or known:
            yield _resource(kind, known[kind], chosen)

    return source()


def _resource(kind: str, per_job: bool, settings: Mapping[str, object]) -> Any:
    @dlt.resource(
        name=kind,
        write_disposition="merge",
        primary_key=[JOB, KEY] if per_job else KEY,
        columns={
            "is_gone": {"data_type": "bool", "hard_delete": True},
            "change_id": {"data_type": "bigint", "dedup_sort": "desc"},
            "change_at": {"data_type": "timestamp"},
        },
    )
    def resource(changes: Any = dlt.sources.incremental("change_id", initial_value=0)) -> Iterator[Row]:  # noqa: B008
        yield from rows_of(_changes(kind, settings, changes.last_value))

    return resource


async def _kinds(settings: Mapping[str, object]) -> AsyncGenerator[list[Row], None]:
    from forager.app.config import load_settings
    from forager.client.connect import reach

    async with reach(load_settings(settings)) as at:
        yield await at.api.get("/records")


async def _changes(kind: str, settings: Mapping[str, object], after: int) -> AsyncGenerator[list[Row], None]:
    """Yield the changes of a kind after a number. A record of a removed job, whose body is gone, is left out.

    dlt reads several resources in turns, and an embedded store belongs to one reader at a time: it is opened for some
    pages, and closed before these are handed over.
    """
    from forager.app.config import load_settings
    from forager.client.connect import reach

    while True:
        pages: list[list[Row]] = []
        async with reach(load_settings(settings)) as at:
            while len(pages) < TOGETHER:
                page = await at.api.get("/changes", after=after, kinds=kind, limit=PAGE)
                pages.append([_row(change) for change in page if change["body"] is not None])
                if len(page) < PAGE:
                    break
                after = page[-1]["id"]
        for each in pages:
            yield each
        if len(page) < PAGE:
            return


def _row(change: Mapping[str, Any]) -> Row:
    body = {name: value for name, value in change["body"].items() if name != "gone"}
    return {
        **body,
        KEY: change["key"],
        "change_id": change["id"],
        "change_op": change["op"],
        "change_version": change["version"],
        "change_at": change["at"],
        JOB: change["job"] or "",
        "is_gone": change["op"] == "gone",
    }
