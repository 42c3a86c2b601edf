"""The number and times of the shifts that are sent: without a broker, over a real PostgreSQL."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from forager.app.application import App
from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.errors import Rejected
from forager.core.ledger import SHIFT
from forager.core.schedules import Schedule
from forager.core.secret import Secret
from forager.pipelines.reviews.wiring import submit_token
from forager.runners.celery.broker import entries, find_problem
from forager.runners.celery.dispatch import Dispatcher, required_broker


@pytest.fixture
async def app(app_postgres_url: str, tmp_path: Path) -> AsyncIterator[App]:
    async with open_app(new_settings(home=tmp_path, database_url=app_postgres_url)) as app:
        yield app


async def test_shifts_are_sent_for_lanes_with_work_and_again_when_they_have_expired(app: App) -> None:
    sent: Counter[str] = Counter()
    dispatcher = Dispatcher(app, lambda queue: sent.update([queue]), most=2, expires=3_600)
    await dispatcher.look()
    assert not sent, "there is no work"
    await submit_token(app, Secret("token"))
    for _ in range(3):
        await dispatcher.look()
    assert sent == {"account-worker": 1}, "one lane needs one shift, and it is on its way"
    dispatcher._expires = 0.0  # as if the hour had passed
    await dispatcher.look()
    assert sent == {"account-worker": 2}, "the first was lost"
    session = await app.ledger.begin(f"{SHIFT}one", ["account-worker"])
    await app.ledger.take_lanes(session, 10)
    await dispatcher.look()
    assert sent == {"account-worker": 2}, "the lane has an owner"


async def test_a_lane_shared_by_all_workers_gets_a_shift_for_each_ready_task__RV_5(app: App) -> None:
    sent: Counter[str] = Counter()
    dispatcher = Dispatcher(app, lambda queue: sent.update([queue]), most=3)
    for number in range(2):
        await submit_token(app, Secret(f"token {number}"))
    await dispatcher.look()
    assert sent == {"account-worker": 2}
    for number in range(2, 9):
        await submit_token(app, Secret(f"token {number}"))
    await dispatcher.look()
    assert sent == {"account-worker": 3}, "no more than may run at once"


async def test_plain_workers_take_no_place_of_a_shift(app: App) -> None:
    sent: Counter[str] = Counter()
    dispatcher = Dispatcher(app, lambda queue: sent.update([queue]), most=2)
    await submit_token(app, Secret("token"))
    plain = await app.ledger.begin("host:1", ["account-worker", "scraping"])
    await dispatcher.look()
    assert sent == {"account-worker": 1}
    await app.ledger.end(plain)


async def test_the_session_of_a_shift_counts_as_one(app: App) -> None:
    sent: Counter[str] = Counter()
    dispatcher = Dispatcher(app, lambda queue: sent.update([queue]), most=1)
    async with app.shift("scraping"):
        while not app.worker.session:
            await asyncio.sleep(0.01)
        await submit_token(app, Secret("token"))
        await dispatcher.look()
        assert not sent, "the one shift that may run is running"
    await dispatcher.look()
    assert sent == {"account-worker": 1}


async def test_sending_to_a_broker_that_does_not_answer_is_retried(app: App) -> None:
    await submit_token(app, Secret("token"))
    answers = [OSError("refused"), None]

    def send(_: str) -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    dispatcher = Dispatcher(app, send, most=1)
    await dispatcher.look()
    assert (dispatcher.sent, app.runner_trouble) == (0, "The broker does not answer: refused")
    await dispatcher.look()
    assert (dispatcher.sent, app.runner_trouble) == (1, None)


async def test_a_broker_that_does_not_answer_at_the_start_is_logged_before_there_is_work(app: App) -> None:
    def connect() -> None:
        raise OSError("refused")

    dispatcher = Dispatcher(app, lambda _: None, most=1, connect=connect)
    with structlog.testing.capture_logs() as lines:
        running = asyncio.create_task(dispatcher.run())
        async with asyncio.timeout(60):
            while not lines:
                await asyncio.sleep(0.01)
        running.cancel()
    assert (lines[0]["event"], lines[0]["error"]) == (
        "broker_unreachable",
        "refused",
    )


@pytest.mark.parametrize(
    ("url", "told"),
    [(None, "--broker: is not set; give it"), ("nonsense", "not a valid URL of a broker; write redis")],
)
def test_a_broker_that_is_missing_or_no_url_is_named_with_its_option(url: str | None, told: str) -> None:
    with pytest.raises(Rejected, match=told) as refused:
        required_broker(new_settings(broker_url=url))
    assert [each.field for each in refused.value.fields] == ["--broker"]


def test_beat_gets_the_schedules_that_it_can_read__LI_4() -> None:
    schedules = [
        Schedule("hourly", "listings", {}, cron="0 * * * *"),
        Schedule("often", "listings", {}, every=90.0),
        Schedule("odd", "listings", {}, cron="0 0 LW * *"),
    ]
    made = entries(schedules)
    assert set(made) == {"forager.hourly", "forager.often"}
    assert made["forager.hourly"]["args"] == ["hourly"]
    assert made["forager.often"]["schedule"].total_seconds() == 90


@pytest.mark.parametrize(
    ("url", "pool", "limit", "problem"),
    [
        (None, "prefork", None, "need PostgreSQL"),
        ("postgresql://h/d", "gevent", None, "--pool prefork"),
        ("postgresql://h/d", "prefork", 90.0, "shorter than a shift and its drain (90 s)"),
        ("postgresql://h/d", "prefork", 91.0, None),
        ("postgresql://h/d", "solo", None, None),
    ],
)
def test_a_worker_that_cannot_run_shifts_is_refused(
    url: str | None, pool: str, limit: float | None, problem: str | None
) -> None:
    found = find_problem(new_settings(database_url=url), pool=pool, limits={"time limit": limit})
    assert (found is None) if problem is None else (found is not None and problem in found)
