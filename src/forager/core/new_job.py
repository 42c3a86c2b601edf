"""What the ledger takes to create a job, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from forager.core.pipeline import JobLimits


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be created. Jobs without tasks (`dry_run`) end at once and only hold their `estimate`."""

    pipeline: str
    params: Mapping[str, Any]
    limits: JobLimits = field(default_factory=JobLimits)
    idempotency_key: str | None = None
    estimate: Mapping[str, Any] | None = None
    schedule: str | None = None
    standing: bool = False
    """Its idempotency key never expires: it is the one job to which `append` adds tasks."""
    until_end: bool = False
    """Its idempotency key names it until it has ended, for at most 30 days; the next job with this key is then
    a new one."""
    id: UUID | None = None
    """The public id to give it; None: the ledger chooses one. Secrets are sealed for one id, so they need it."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Sealed texts by name (`core.secret.about_job`), deleted in the transaction that ends the job."""
    request_id: str | None = None
    """The id of the HTTP request that submitted it, for the log."""


class JobNews(NamedTuple):
    """Something that a transaction of this process did to a job, for the log."""

    job: int
    """Its number."""
    op: str
    """created, started, paused, resumed, retried, extended, cancelling or ended."""
    new: Mapping[str, Any] | None = None
    """Columns that a log line needs, for a job that was just created in one transaction."""


@dataclass(frozen=True, slots=True)
class Submitted:
    job: UUID
    total: int
    created: bool
    """False if the same Idempotency-Key was used before; this is then the earlier job."""
    first: UUID | None = None
    """The first task of a job that was just created in one transaction, so that callers need no lookup."""


@dataclass(frozen=True, slots=True)
class Received:
    """How much of a job that is sent in parts has been stored."""

    job: UUID
    total: int
    """Tasks so far. The next part begins with this number."""
    is_open: bool
    """Whether more parts are expected: nothing of the job can be leased yet."""
    created: bool = False
    """Whether this call has created the job."""
