"""Rows of a job that failed validation, through the API."""

from uuid import uuid4

from forager.core.ledger import Extras, Settlement, Want
from forager.core.outcome import Reject
from forager.core.states import TaskState
from forager.pipelines.places.records import Place
from tests.support.api import Front


async def _reject(front: Front, *rows: Reject) -> str:
    """A job of one query whose answer had these rows."""
    job = await front.create()
    ledger = front.app.ledger
    session = await ledger.begin("by hand")
    (lane,) = await ledger.take_lanes(session, 10)
    (lease,) = (await ledger.settle_and_lease(session, [], [Want(lane.id, 1)])).leases
    await ledger.settle_and_lease(session, [Settlement(lease, TaskState.COMPLETED, extras=Extras(rejected=rows))], [])
    await ledger.end(session)
    return job


async def test_rejected_rows_are_listed_by_job_with_reason_and_payload(front: Front) -> None:
    job = await _reject(
        front,
        Reject(Place, "rating: at most 5", {"placeId": "a", "rating": 7}, key="a"),
        Reject(Place, "it has no name", ["?"]),
    )
    assert (await front.data(f"/api/v1/jobs/{job}"))["rejected"] == 2
    rows = await front.data(f"/api/v1/jobs/{job}/rejected")
    assert [(row["kind"], row["key"], row["reason"], row["payload"]) for row in rows] == [
        ("place", "a", "rating: at most 5", {"placeId": "a", "rating": 7}),
        ("place", None, "it has no name", ["?"]),
    ]
    (task,) = await front.data(f"/api/v1/jobs/{job}/tasks")
    assert {row["task"] for row in rows} == {task["id"]}
    other = await front.create(keyword="cafes", zips=["85001"], pages=1)
    assert await front.data(f"/api/v1/jobs/{other}/rejected") == []


async def test_rejected_rows_are_paged_and_an_unknown_job_is_not_found(front: Front) -> None:
    job = await _reject(front, *(Reject(Place, f"row {n}", {"n": n}) for n in range(5)))
    path, cursor, seen = f"/api/v1/jobs/{job}/rejected", None, []
    for _ in range(3):
        got = (await front.client.get(path, params={"limit": 2, **({"cursor": cursor} if cursor else {})})).json()
        seen += [row["payload"]["n"] for row in got["data"]]
        cursor = got["meta"]["next_cursor"]
    assert (seen, cursor) == ([0, 1, 2, 3, 4], None)
    assert (await front.client.get(f"/api/v1/jobs/{uuid4()}/rejected")).status_code == 404
