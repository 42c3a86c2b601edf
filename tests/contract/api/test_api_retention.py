"""Retention through the API: what would go is counted, and then goes."""

from forager.core.upkeep import Keep
from tests.support.api import Front

PATH = "/api/v1/prune"


async def test_a_dry_run_counts_and_removes_nothing_and_then_it_goes(simple: Front) -> None:
    await simple.app.submit("places", {"keyword": "bars", "zips": ["85001"], "dry_run": True})
    for sink in simple.app.deliveries:
        await simple.app.sinks.advance(sink, 1)
    simple.app.keep = Keep(jobs=1e-6)
    would = (await simple.client.post(PATH, json={"dry_run": True})).json()["data"]
    nothing = dict.fromkeys(("tasks", "messages", "rejected", "attempts", "changes", "records"), 0)
    assert would == {"jobs": 1, **nothing, "more": False}
    assert len(await simple.data("/api/v1/jobs")) == 1
    assert (await simple.client.post(PATH, json={})).json()["data"] == would
    assert await simple.data("/api/v1/jobs") == []
    assert (await simple.client.post(PATH, json={"dry_run": True})).json()["data"]["jobs"] == 0


async def test_nothing_else_is_accepted(simple: Front) -> None:
    assert (await simple.client.post(PATH, json={"days": 3})).status_code == 422
