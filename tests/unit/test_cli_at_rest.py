"""Commands that read a store at rest answer exactly as the application does, or leave the answer to it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.cli.main import Application
from forager.client.resting import resting_store
from forager.ledger.sqlite.lock import StoreLock
from tests.support.cli import Forager, Ran

PLACES = ("-k", "bars", "-s", "RI")


@contextmanager
def by_the_application(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no store be at rest, so that the application answers."""

    @contextmanager
    def nothing(self: Application, settings: object) -> Iterator[None]:
        raise LookupError
        yield

    with monkeypatch.context() as patched:
        patched.setattr(Application, "at_rest", nothing)
        yield


def both(forager: Forager, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[Ran, Ran]:
    quick = forager(*arguments)
    with by_the_application(monkeypatch):
        return quick, forager(*arguments)


def ended_jobs(forager: Forager) -> None:
    """Two jobs that have ended, one that Forager made itself, and a standing one."""
    forager("places", "run", *PLACES, "--dry-run")
    forager("places", "run", *PLACES, "--dry-run", "--max-credits", "7")
    with closing(sqlite3.connect(".forager/ledger.db")) as db, db:
        names = [
            row[1] for row in db.execute("PRAGMA table_info(jobs)") if row[1] not in ("id", "public_id", "pipeline")
        ]
        for number, pipeline in ((91, "deliveries"), (92, "products")):
            db.execute(
                f"INSERT INTO jobs (id, public_id, pipeline, {', '.join(names)})"
                f" SELECT {number}, '000000{number}-0000-4000-8000-000000000000', '{pipeline}', {', '.join(names)}"
                " FROM jobs LIMIT 1"
            )
        db.execute(
            "INSERT INTO idempotency (key, fingerprint, job_id, expires_at) VALUES (' recheck/pictures', '', 92, 0)"
        )


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--all",),
        ("--state", "completed"),
        ("--pipeline", "places"),
        ("--limit", "1"),
        ("--pipeline", "deliveries"),
    ],
    ids=" ".join,
)
def test_a_list_of_ended_jobs_is_the_one_that_the_application_gives(
    forager: Forager, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    ended_jobs(forager)
    quick, whole = both(forager, monkeypatch, "jobs", "list", "--json", *options)

    assert quick.data == whole.data
    assert quick.data
    assert forager("jobs", "list").out.count("completed") == 2


def test_open_jobs_and_mistakes_are_left_to_the_application(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    forager("schedules", "run", "bars")
    quick, whole = both(forager, monkeypatch, "jobs", "list", "--json")
    assert quick.data == whole.data
    assert quick.data[0]["waiting"]

    for wrong in (("--state", "broken"), ("--pipeline", "no-such")):
        quick, whole = both(forager, monkeypatch, "jobs", "list", *wrong)
        assert (quick.code, quick.err) == (whole.code, whole.err)
        assert quick.code == 2


def test_a_plan_is_the_one_that_the_application_gives_with_and_without_history(
    forager: Forager, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = ("places", "plan", *PLACES, "--json")
    quick, whole = both(forager, monkeypatch, *plan)
    assert quick.data == whole.data
    assert not Path(".forager").exists()

    forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    forager("schedules", "run", "bars")
    with closing(sqlite3.connect(".forager/ledger.db")) as db, db:
        db.execute("UPDATE jobs SET completed = 1")
        db.execute("UPDATE tasks SET state = 4, facts = ?", (json.dumps({"results_count": 3}),))
    known_quick, known_whole = both(forager, monkeypatch, *plan)
    assert known_quick.data == known_whole.data
    assert known_quick.data["expected_credits"] < quick.data["expected_credits"]


@pytest.mark.parametrize("wrong", [("-s", "ZA"), ("-s", "RI", "-p", "11"), ()], ids=" ".join)
def test_a_wrong_plan_has_the_words_of_the_application(
    forager: Forager, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...]
) -> None:
    quick, whole = both(forager, monkeypatch, "places", "plan", "-k", "bars", *wrong)
    assert (quick.code, quick.err) == (whole.code, whole.err)
    assert quick.code == 2


def test_a_store_in_use_or_not_closed_in_order_is_not_at_rest(store: Path) -> None:
    settings = new_settings(home=store)
    with resting_store(settings) as found:
        assert found is not None
    (store / "ledger.db-wal").write_bytes(b"left by a crash")
    with pytest.raises(LookupError, match="in use"), resting_store(settings):
        pass
    (store / "ledger.db-wal").unlink()
    lock = StoreLock(store / "lock")
    lock.take()
    try:
        with pytest.raises(LookupError), resting_store(settings):
            pass
    finally:
        lock.release()
    with pytest.raises(LookupError), resting_store(settings.model_copy(update={"database_url": "postgresql://x"})):
        pass


async def test_a_file_of_another_schema_is_left_to_the_application(store: Path) -> None:
    with resting_store(new_settings(home=store)) as found:
        assert found is not None
        with pytest.raises(LookupError, match="no such table"):
            await found.fetch("SELECT 1 FROM no_such_table")
        with pytest.raises(LookupError, match="readonly"):
            await found.fetch("DELETE FROM jobs")


def test_a_feature_is_internal_as_its_pipeline_is() -> None:
    settings = new_settings()
    for feature in FEATURES:
        assert feature.build.load()(settings).internal is feature.internal
