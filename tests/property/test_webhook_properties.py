"""Properties 40 to 43 of the scrape specification: the content of a webhook, its receiver, and that every end has
one."""

import asyncio
import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forager.core.clock import SystemClock
from forager.core.ledger import Lease, NewJob, Settlement, Want
from forager.core.outcome import Done
from forager.core.states import TaskState
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.sandbox.receiver import WebhookReceiver
from forager.sinks.webhook import signing
from forager.sinks.webhook.outbox import MOST_RESULTS
from forager.sinks.webhook.pipeline import build as build_webhooks
from forager.sinks.webhook.receivers import WebhookDelivery
from tests.support.acts import many
from tests.support.origin import Origin, reply
from tests.support.webhooks import SECRET, Outbox, open_outbox

WELL, BADLY, DROPPED = TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED
Ends = list[TaskState]
ends = st.lists(st.sampled_from([WELL, BADLY, DROPPED]), min_size=1, max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@dataclass
class Stage:
    """One store and one loop for all examples of a property; tasks end at once, in the states of the example."""

    outbox: Outbox
    other: WebhookReceiver
    runner: asyncio.Runner
    count: int = 0
    lanes: dict[str, int] = field(default_factory=dict)

    async def end_job(self, wanted: Ends, *, callback: str | None = None, cancel_after: int | None = None) -> UUID:
        """Submit a job and end its tasks in these ways; after `cancel_after` tasks, the rest is cancelled."""
        self.count += 1
        ledger = self.outbox.engine.ledger
        params = {"callback_url": callback} if callback else {}
        job: UUID = (await ledger.submit(NewJob("acts", params), many(len(wanted), prefix=f"{self.count}-"))).job
        session = await ledger.begin("hand")
        leases = await self._lease(session, len(wanted) if cancel_after is None else cancel_after)
        if cancel_after is not None:
            await ledger.cancel(job)
        await ledger.settle_and_lease(session, [Settlement(a, how) for a, how in zip(leases, wanted, strict=False)], [])
        await ledger.end(session)
        return job

    async def told(self) -> list[WebhookDelivery]:
        """Return the webhooks that the sink adds now, taken off the queue."""
        await self.outbox.tell()
        ledger = self.outbox.engine.ledger
        session = await ledger.begin("postman")
        leases = await self._lease(session, 100)
        await ledger.settle_and_lease(session, [Settlement(lease, TaskState.COMPLETED) for lease in leases], [])
        await ledger.end(session)
        return [lease.task for lease in leases if isinstance(lease.task, WebhookDelivery)]

    async def _lease(self, session: object, most: int) -> list[Lease]:
        ledger = self.outbox.engine.ledger
        taken = await ledger.take_lanes(session, 100)
        if not most or not taken:
            return []
        return list((await ledger.settle_and_lease(session, [], [Want(lane.id, most) for lane in taken])).leases)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with asyncio.Runner() as runner:

        async def begin() -> tuple[Outbox, WebhookReceiver]:
            other = WebhookReceiver([SECRET])
            await other.start()
            return await opened.__aenter__(), other

        opened = open_outbox(tmp_path)
        outbox, other = runner.run(begin())
        yield Stage(outbox, other, runner)
        runner.run(other.stop())
        runner.run(opened.__aexit__(None, None, None))


# Feature: scraping-microservices, Property 40: HMAC-SHA256 webhook signature correctness
def test_the_signature_is_computed_from_the_sent_bytes__SC_P40() -> None:
    with asyncio.Runner() as runner:

        async def send(secret: str, payload: object) -> tuple[dict[str, str], bytes]:
            async with Origin(lambda _: reply(200)) as origin:
                fetch = HttpFetcher(EgressGuard([origin.endpoint]), SystemClock(), lambda _: secret, sign=signing.sign)
                delivery = WebhookDelivery(
                    id="m1", receiver=origin.url("/x"), host="h", body=orjson.dumps(payload).decode(), at=0
                )
                step = build_webhooks().steps[0]
                assert isinstance(await step.run(delivery, fetch), Done)
                await fetch.close()
                (seen,) = origin.seen
                return {name.lower(): value for name, value in seen.headers.items()}, seen.body

        @given(secret=st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), payload=json_values)
        def check(secret: str, payload: object) -> None:
            headers, body = runner.run(send(secret, payload))
            assert orjson.loads(body) == payload
            expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
            assert headers["x-webhook-signature"] == expected

        check()


# Feature: scraping-microservices, Property 41: Webhook payload size by job task count
def test_results_are_included_for_jobs_of_up_to_a_hundred_tasks__SC_P41(stage: Stage) -> None:
    @given(count=st.sampled_from([99, 100, 101]) | st.integers(1, 130), badly=st.integers(0, 130))
    def check(count: int, badly: int) -> None:
        failed = min(badly, count)
        job = stage.runner.run(stage.end_job([BADLY] * failed + [WELL] * (count - failed)))
        (delivery,) = stage.runner.run(stage.told())
        said = orjson.loads(delivery.body)
        assert said["job_id"] == str(job)
        assert said["summary"] == {"total": count, "completed": count - failed, "failed": failed}
        if count > MOST_RESULTS:
            assert said["results"] is None
        else:
            assert len(said["results"]) == count
            assert [r["status"] for r in said["results"]].count("failed") == failed

    check()


# Feature: scraping-microservices, Property 42: Webhook callback URL override
def test_a_jobs_own_receiver_replaces_the_default_one__SC_P42(stage: Stage) -> None:
    names = st.text("abcdefghijklmnopqrstuvwxyz0123456789-._~", max_size=20)

    async def deliver(delivery: WebhookDelivery) -> None:
        default = stage.outbox.receiver.url("/hook")
        guard = EgressGuard([stage.outbox.receiver.endpoint, stage.other.endpoint])
        fetch = HttpFetcher(guard, SystemClock(), lambda _: SECRET, sign=signing.sign)
        await build_webhooks(default).steps[0].run(delivery, fetch)
        await fetch.close()

    @given(own=st.none() | names, wanted=ends)
    def check(own: str | None, wanted: Ends) -> None:
        callback = None if own is None else stage.other.url(f"/own/{own}")
        job = stage.runner.run(stage.end_job(wanted, callback=callback))
        (delivery,) = stage.runner.run(stage.told())
        stage.runner.run(deliver(delivery))
        at_default = [each for each in stage.outbox.receiver.log if job.hex in each.id]
        at_own = [each for each in stage.other.log if job.hex in each.id]
        assert (len(at_default), len(at_own)) == ((1, 0) if own is None else (0, 1))
        assert (at_default + at_own)[0].problem is None

    check()


# Feature: scraping-microservices, Property 43: Terminal job state triggers webhook
def test_every_end_of_a_job_has_one_webhook__SC_P43(stage: Stage) -> None:
    @given(wanted=ends, cancel=st.none() | st.integers(0, 12))
    def check(wanted: Ends, cancel: int | None) -> None:
        after = None if cancel is None or cancel >= len(wanted) else cancel
        job = stage.runner.run(stage.end_job(wanted, cancel_after=after))
        (delivery,) = stage.runner.run(stage.told())
        assert stage.runner.run(stage.told()) == []
        said = orjson.loads(delivery.body)
        ran = wanted if after is None else wanted[:after]
        well, badly = ran.count(WELL), ran.count(BADLY)
        status = (
            "cancelled"
            if after is not None
            else "completed"
            if not badly
            else "failed"
            if not well
            else "partially_completed"
        )
        assert said["job_id"] == str(job)
        assert said["status"] == status == stage.outbox.engine.job(job)["state"]
        assert said["summary"] == {"total": len(wanted), "completed": well, "failed": badly}

    check()
