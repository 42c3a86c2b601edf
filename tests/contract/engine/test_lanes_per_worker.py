"""A lane whose limits are per worker: N workers send N times its rate, and each never more than its own."""

from forager.ledger.sqlite import SqliteLedger
from forager.sandbox import SerperConfig, SerperSandbox
from tests.contract.engine.conftest import OpenRig
from tests.contract.engine.test_moving_lanes import at_work
from tests.support.engine import serper, until

BURST, WORKERS = 20, 3
LONG = 3_600.0
"""A window that no test outlives: what a worker sends beyond its burst would be too much."""


async def test_each_worker_sends_at_the_rate_of_the_lane_and_not_faster_after_a_new_session__RV_5(
    open_rig: OpenRig,
) -> None:
    async with SerperSandbox(SerperConfig(latency_ms=1.0)) as upstream:
        rig = await open_rig(serper(upstream.url, rate=BURST, per=LONG, burst=BURST, scope="worker"))
        rig.may_rest = True
        await rig.submit_places(WORKERS * BURST + 50, pages=1)
        workers = [rig.worker(upstream.url) for _ in range(WORKERS)]
        owners = 1 if isinstance(rig.ledger, SqliteLedger) else WORKERS
        async with at_work(*workers):
            await until(lambda: len(rig.starts) >= owners * BURST)
            await until(lambda: not any(worker.in_flight for worker in workers))
        sent = sorted(worker.stats.started for worker in workers)
        assert sent == [0] * (WORKERS - owners) + [BURST] * owners
        if owners == 1:
            return
        for worker in workers:
            worker.reopen()
        async with at_work(*workers):
            await until(lambda: all(worker.lanes_owned for worker in workers))
            lanes = [next(iter(worker._lanes)) for worker in workers]
            assert [lane.most(100) for lane in lanes] == [0] * WORKERS, "their windows are full"
        other = rig.worker(upstream.url)
        async with at_work(other):
            await until(lambda: other.stats.started == BURST)
        assert len(rig.starts) == (WORKERS + 1) * BURST
