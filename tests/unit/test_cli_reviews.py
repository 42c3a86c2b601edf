"""`forager reviews` on a store of its own: a Google that cannot be reached, then a folder of recorded answers."""

from pathlib import Path

import orjson
import pytest

from tests.support.cli import Forager

TOKEN = "ya29.canary"
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The names of the seed's examples: ids in fields of their own, a rating as a number, a plain reviewer."""
    rows = {
        "accounts": [{"accountId": "123456", "accountName": "My Business"}],
        "locations": [{"accountId": "123456", "locationId": "789"}],
        "Reviews": [
            {
                "reviewId": "review_123",
                "accountId": "123456",
                "locationId": "789",
                "reviewer": "John Doe",
                "rating": 5,
                "text": "Great service!",
            }
        ],
    }
    for name, content in rows.items():
        (tmp_path / f"{name}.json").write_bytes(orjson.dumps(content))
    return tmp_path


def test_failed_pages_are_named_and_fetched_again_with_a_new_token__RV_2__RV_9__RV_11(
    forager: Forager, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_GOOGLE_ACCOUNTS_URL", f"http://{NOWHERE}")
    monkeypatch.setenv("FORAGER_EGRESS_ALLOW", NOWHERE)
    ran = forager("reviews", "run", "--token-file", "-", stdin=TOKEN)
    (job,) = forager("jobs", "list", "--json").data
    assert (ran.code, f"forager reviews retry {job['id']}" in ran.err) == (1, True), ran.all
    streamed = forager("reviews", "stream", job["id"])
    assert (streamed.code, streamed.out) == (1, "")
    assert "1 page of job" in streamed.err
    assert f"forager reviews retry {job['id']}" in streamed.err
    without = forager("jobs", "retry", job["id"])
    assert (without.code, "access_token" in without.err) == (2, True), without.all
    passed_over = forager("dead", "retry", "--all").out
    assert passed_over.startswith("1 dead letter passed over (secret_required)."), passed_over

    monkeypatch.setenv("FORAGER_GOOGLE_MOCK_FOLDER", str(recorded))
    again = forager("reviews", "retry", job["id"], "--token-file", "-", stdin=TOKEN)
    assert (again.code, again.out.strip()) == (0, "1 page queued again.")
    assert "Nothing to retry" in forager("reviews", "retry", job["id"], "--token-file", "-", stdin=TOKEN).out
    streamed = forager("reviews", "stream", job["id"])
    lines = [orjson.loads(line) for line in streamed.out.splitlines()]
    assert (streamed.code, [line["event"] for line in lines]) == (0, ["account", "location", "review"])
    review = lines[-1]["data"]
    assert review.pop("raw")["reviewer"] == "John Doe", "as it is in the folder"
    assert review == {
        "job_id": job["id"],
        "review_key": "123456_789_review_123",
        "account_id": "123456",
        "location_id": "789",
        "reviewId": "review_123",
        "reviewer": {"displayName": "John Doe"},
        "rating": 5,
        "text": "Great service!",
        "createTime": None,
        "updateTime": None,
        "reply": None,
    }
    assert TOKEN not in streamed.all + again.all + without.all


def test_doctor_reads_a_folder_of_recorded_answers__RV_11(
    forager: Forager, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_GOOGLE_MOCK_FOLDER", str(recorded))
    good = forager("doctor")
    assert (good.code, "accounts: 1" in " ".join(good.out.split())) == (0, True), good.all
    (recorded / "locations.json").write_text("nonsense")
    broken = forager("doctor")
    assert (broken.code, "locations.json is not JSON" in " ".join(broken.out.split())) == (1, True), broken.all
