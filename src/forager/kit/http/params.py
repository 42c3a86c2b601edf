"""Query parameters and headers that several routes share."""

from typing import Annotated, Literal

from fastapi import Header
from pydantic import BaseModel, ConfigDict, Field

from forager.core.errors import FieldError, Rejected
from forager.core.reasons import ErrorType
from forager.kit.queries import MOST

JobStateName = Literal["queued", "running", "paused", "completed", "partially_completed", "failed", "cancelled"]
TaskStateName = Literal["queued", "running", "completed", "failed", "skipped", "cancelled"]

SCHEDULED = "schedule/"
REPEATED = {"Idempotent-Replayed": "true"}
"""Response headers of a creation whose Idempotency-Key was used before."""


class PageQuery(BaseModel):
    """Paging of a list. Unknown parameters are refused, because a misspelt filter would silently return everything."""

    model_config = ConfigDict(extra="forbid")

    cursor: str | None = Field(
        default=None,
        max_length=2_000,
        pattern="^[A-Za-z0-9_-]+$",
        description="`meta.next_cursor` of the previous page.",
    )
    limit: int = Field(default=100, ge=1, le=MOST, description="Maximum items per page.")


class WhyQuery(PageQuery):
    """Paging and filters for lists of failed tasks."""

    reason: str | None = Field(
        default=None,
        max_length=64,
        pattern="^[a-z][a-z0-9_]*$",
        description="Only tasks with this reason, such as `timed_out`, `robots` or a pipeline's own.",
    )
    error_type: ErrorType | None = Field(default=None, description="Only failures of this type.")


IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Safe repeats: for 24 hours the same key returns the same job, or 409 if the body differs.",
        examples=["bars-az-2026-03-14"],
    ),
]

KeyUntilEnd = Annotated[
    str | None,
    Header(
        alias="idempotency-key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Safe repeats: until the job has ended, the same key returns the same job.",
        examples=["pages-2026-03-14"],
    ),
]


def checked_key(key: str | None) -> str | None:
    if key is not None and key.startswith(SCHEDULED):
        problem = FieldError("idempotency-key", f"must not begin with {SCHEDULED}: those are the scheduler's own")
        raise Rejected(f"Idempotency-Key {problem.message}.", fields=[problem])
    return key
