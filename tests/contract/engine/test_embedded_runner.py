"""All loops of one process: one that breaks stops no other, and a stop lets what is in hand end."""

import asyncio
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from forager.engine.deliver import Deliveries, SinkDelivery
from forager.runners import embedded
from forager.runners.embedded import EmbeddedRunner
from tests.support.acts import acts, many
from tests.support.deliveries import QUICK, Faulty, Kept, sink_table
from tests.support.engine import EngineRig, open_sqlite, until


@pytest.fixture
async def engine(tmp_path: Path) -> EngineRig:
    return await open_sqlite(tmp_path, [acts()])


async def test_a_loop_that_breaks_is_started_again(engine: EngineRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "RESTART_AFTER", 0.01)
    lives: list[str] = []

    async def fragile() -> None:
        lives.append("fragile")
        raise RuntimeError("a defect")

    async def left_out() -> None:
        lives.append("left out")

    loops = {"fragile": fragile, "left out": left_out}
    runner = EmbeddedRunner(engine.worker(), Deliveries(), loops, clock=engine.clock, grace=1.0)
    job = await engine.submit(many(3))
    async with runner.running(without=("left out",)):
        await until(lambda: len(lives) >= 3)
        await until(lambda: engine.job(job)["finished_at"] is not None)
    assert set(lives) == {"fragile"}
    await engine.close()


async def test_a_stop_waits_for_the_batch_that_a_sink_has_in_hand(engine: EngineRig) -> None:
    worker, sink = engine.worker(), Faulty(Kept(), slow=0.3)
    delivery = SinkDelivery(engine.ledger, sink_table(engine.ledger), sink, engine.clock, lambda: worker.session, QUICK)
    runner = EmbeddedRunner(worker, Deliveries([delivery]), {}, clock=engine.clock, grace=5.0)
    await engine.submit(many(3))
    async with asyncio.timeout(60), runner.running():
        await until(lambda: sink.batches)
    assert sink.real.ids[: len(sink.batches[0])] == sink.batches[0]  # type: ignore[attr-defined]
    assert (await sink_table(engine.ledger).position("kept")).cursor == sink.real.ids[-1]  # type: ignore[attr-defined]
    await engine.close()


async def test_a_stop_does_not_wait_for_a_sink_that_hangs(engine: EngineRig) -> None:
    worker, sink = engine.worker(), Faulty(Kept(), slow=600.0)
    delivery = SinkDelivery(engine.ledger, sink_table(engine.ledger), sink, engine.clock, lambda: worker.session, QUICK)
    runner = EmbeddedRunner(worker, Deliveries([delivery]), {}, clock=engine.clock, grace=0.2)
    await engine.submit(many(1))
    async with asyncio.timeout(60):
        async with runner.running():
            await until(lambda: sink.batches)
    assert sink.real.ids == []  # type: ignore[attr-defined]
    assert not runner.is_stopping
    await engine.close()


def _has_ended(engine: EngineRig, job: UUID) -> bool:
    return engine.job(job)["finished_at"] is not None


async def test_a_runner_that_has_drained_can_run_again(engine: EngineRig) -> None:
    runner = EmbeddedRunner(engine.worker(), Deliveries(), {}, clock=engine.clock, grace=1.0)
    for _ in range(3):
        job = await engine.submit(many(3))
        async with asyncio.timeout(60), runner.running():
            await until(partial(_has_ended, engine, job))
    async with asyncio.timeout(60), runner.running():
        pass  # a stop that comes before the worker has begun holds, too
    await engine.close()
