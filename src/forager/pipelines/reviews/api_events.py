"""What a reviews job has found, in order and in pages: for programs that poll instead of reading an event stream."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from forager.core.change import Change
from forager.kit.http.envelope import Envelope, answer
from forager.kit.http.event_stream import MOST_NUMBER
from forager.kit.http.openapi import example, failures
from forager.kit.http.routes import Router
from forager.kit.service import Service
from forager.pipelines.reviews.access import review_job
from forager.pipelines.reviews.records import Account, Location, Review

_FIELDS = {record.kind: tuple(record.model_fields) for record in (Account, Location, Review)}
KINDS = tuple(_FIELDS)
MOST = 1_000

After = Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Begin after this number; 0: at the beginning.")]
Limit = Annotated[int, Query(ge=1, le=MOST, description="Number of events at most.")]


def event_data(change: Change) -> dict[str, Any] | None:
    """Return a record as an event shows it: every field, unknown ones as null, with its job, as in `reviews-raw`.

    None if the record has been removed since.
    """
    body = change.body
    if body is None:
        return None
    return {"job_id": change.job, **{name: body.get(name) for name in _FIELDS[change.kind]}}


class ReviewEvent(BaseModel):
    number: int
    event: str = Field(description="account, location or review")
    data: dict[str, Any]


class ReviewEvents(BaseModel):
    events: list[ReviewEvent]
    last: int = Field(description="Ask again after this number.")
    ended: bool = Field(description="Whether the job has ended and this page is its last.")


def add_events(router: Router, service: Service) -> None:
    @router.get(
        "/review-fetch/{job_id}/events",
        summary="List what a reviews job has found, in order",
        response_model=Envelope[ReviewEvents],
        responses={200: _EVENTS, **failures(404)},
    )
    async def list_review_events(request: Request, job_id: UUID, after: After = 0, limit: Limit = 200) -> Response:
        """The same events as the stream, with the same numbers. Poll it until `ended`."""
        # First the job, then its changes: no change of a job that was seen as ended is missed.
        ended = (await review_job(service, job_id)).finished_at is not None
        changes = await service.ledger.changes(after, limit, job=job_id, kinds=KINDS)
        events = [
            {"number": each.id, "event": each.kind, "data": data}
            for each in changes
            if (data := event_data(each)) is not None
        ]
        last = changes[-1].id if changes else after
        return answer(request, {"events": events, "last": last, "ended": ended and len(changes) < limit})


JOB = "0f1c9b52-6a7e-4d0e-8e63-0a2f3c5b7d11"
_EVENTS = example(
    {
        "events": [{"number": 7, "event": "account", "data": {"job_id": JOB, "account_id": "1"}}],
        "last": 7,
        "ended": False,
    }
)
