"""Changes: the append-only log of everything that happened to records and jobs. Sinks read it, and so do streams."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(slots=True)
class Change:
    """One row of the append-only log. It is complete: a reader needs no other table to act on it.

    It is not frozen, because creating a frozen value takes three times as long and sinks read every change. Treat it as
    constant all the same: a batch may be handed over again.
    """

    id: int
    """Dense and in commit order: a reader that has passed a number has missed nothing before it."""
    kind: str
    """`job`, `task`, or the kind of a record."""
    key: str
    """The record's natural key, unique within its kind (and, for a record of job scope, its job); the public id of a
    job or a task."""
    op: str
    """The event: `new`, `changed` or `gone` for a record; `created`, `ended`, … for a job; the new state of a task
    (`failed`; `queued` when it is retried or, where it is offered, new), for the states that its pipeline logs."""
    version: int
    """Grows with every change of this key: of two changes, the higher version is the later state."""
    job: UUID | None
    """The public id of the job that caused it, also when that job has been removed since."""
    pipeline: str | None
    """The pipeline of that job."""
    at: int
    """Time when it was committed, in Unix milliseconds."""
    body: Mapping[str, Any] | None
    """The whole value after the change, without fields that are unknown. For a record that was renamed (`gone`), only
    the stronger key that replaces it. None where the record of job scope has been removed since."""
    scope: str = "world"
    """`job` if each job has a record of its own under this key; `world` if all jobs share one."""

    @property
    def json(self) -> Any:
        """Return the body in a form for `orjson.dumps` only: not decoded, where the log stores JSON."""
        return self.body

    @property
    def fields(self) -> Mapping[str, Any] | None:
        """Return the fields of the body. A nested value is in a form for `orjson.dumps` only, as in `json`."""
        return self.body

    @property
    def identity(self) -> str:
        """Return a text that identifies the record: two changes with the same identity are about the same record."""
        return f"{self.kind}/{self.job}/{self.key}" if self.scope == "job" else f"{self.kind}/{self.key}"


_NAMES = ("title", "product_name", "name", "account_name", "address", "target_url", "url", "text", "key")


def name_of(body: Mapping[str, Any] | None, key: str) -> str:
    """Return what people know a record by: its title, name, address or URL; its key if it has none of them."""
    for name in _NAMES:
        if isinstance(value := (body or {}).get(name), str) and value.strip():
            return " ".join(value.split())
    return key
