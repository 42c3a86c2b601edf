"""The commands on a store of their own, without a running Forager: what they print, and how they exit."""

import json
import os
import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from forager.client import connect
from forager.core.errors import StoreLocked
from forager.ledger.sqlite.lock import StoreLock
from tests.support.cli import Forager, Ran

NOBODY = "00000000-0000-4000-8000-000000000000"


def dry_job(forager: Forager, *more: str) -> str:
    return str(forager("places", "run", "-k", "bars", "-s", "RI", "--dry-run", "--json", *more).data["job_id"])


def test_the_version_is_printed(forager: Forager) -> None:
    assert forager("--version") == Ran(0, f"forager {version('forager-data')}\n", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["jobs", "show", "not-an-id"], "See `forager jobs show --help`."),
        (["places", "plan"], "Missing option '--keyword'"),
        (["export", "place", "--where", "state"], "is not NAME=VALUE"),
        (["schedules", "add", "x", "--every", "soon"], "write 90s, 30m, 6h or 1d"),
        (["schedules", "add", "x", "--every", "1h", "-p", "keyword"], "is not NAME=VALUE"),
        (["sandbox", "--fault", "http500"], "NAME=SHARE"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line_and_exit_2(
    forager: Forager, arguments: list[str], said: str
) -> None:
    ran = forager(*arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert said in ran.err


def test_a_group_without_a_command_shows_its_help(forager: Forager) -> None:
    ran = forager("jobs")

    assert ran.code == 2
    assert "cancel" in ran.out + ran.err


@pytest.mark.usefixtures("store")
def test_plan_prices_a_job_and_spends_nothing__PL_5(forager: Forager) -> None:
    priced = forager("places", "plan", "-k", "bars", "-s", "RI", "--json").data
    shown = forager("places", "plan", "-k", "bars", "-s", "RI")

    assert priced["queries"] == priced["zips"] * 3 == priced["worst_credits"]
    assert f"{priced['expected_credits']} expected" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 80
    assert forager("jobs", "list", "--json").data == []


def test_a_dry_run_is_stored_with_its_price__PL_5(forager: Forager) -> None:
    job = dry_job(forager)

    shown = forager("jobs", "show", job, "--json").data
    assert (shown["state"], shown["total"]) == ("completed", 0)
    assert shown["estimate"]["worst_credits"] > 0
    assert "expected" in forager("places", "run", "-k", "bars", "-s", "RI", "--dry-run").out


def test_the_same_idempotency_key_is_the_same_job_and_another_body_exits_5__PL_3(forager: Forager) -> None:
    first, second = (dry_job(forager, "--idempotency-key", "once") for _ in range(2))

    assert first == second
    repeated = forager("places", "run", "-k", "bars", "-s", "RI", "--dry-run", "--idempotency-key", "once")
    assert f"Job {first} was created before with this idempotency key" in repeated.err
    other = forager("places", "run", "-k", "cafes", "-s", "RI", "--dry-run", "--idempotency-key", "once")
    assert other.code == 5


def test_bad_input_names_the_field_and_the_remedy__PL_1(forager: Forager) -> None:
    swapped = forager("places", "plan", "-k", "bars", "-s", "ZA")
    both = forager("places", "plan", "-k", " ", "-s", "RI", "-p", "11")

    assert (swapped.code, both.code) == (2, 2)
    assert "did you mean AZ?" in swapped.err
    assert [line.split(":")[0].strip() for line in both.err.splitlines()] == ["forager", "--keyword", "--pages"]


def test_with_json_an_error_is_one_json_line(forager: Forager) -> None:
    ran = forager("places", "plan", "-k", "bars", "-s", "ZA", "--json")

    error = json.loads(ran.err)["error"]
    assert (ran.code, ran.out, error["code"], error["exit_code"]) == (2, "", "usage", 2)
    assert error["fields"][0]["field"] == "state"


def test_without_a_key_nothing_is_stored_and_the_ways_out_are_named(forager: Forager) -> None:
    ran = forager("places", "run", "-k", "bars", "-s", "RI")

    assert ran.code == 2
    assert "SERPER_API_KEY" in ran.err
    assert "forager demo" in ran.err
    assert forager("jobs", "list", "--json").data == []


@pytest.mark.parametrize(
    "arguments",
    [
        *(["jobs", verb, NOBODY] for verb in ("show", "watch", "pause", "resume", "cancel", "retry")),
        *(["dead", verb, NOBODY] for verb in ("show", "retry", "discard")),
        *(["schedules", verb, "nightly"] for verb in ("remove", "pause", "resume", "run")),
    ],
    ids=" ".join,
)
def test_what_is_not_there_exits_4(forager: Forager, arguments: list[str]) -> None:
    ran = forager(*arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (4, "", 1)


def test_what_contradicts_a_job_s_state_exits_5(forager: Forager) -> None:
    job = dry_job(forager)

    assert [forager("jobs", verb, job).code for verb in ("pause", "resume", "cancel")] == [5, 5, 5]


@pytest.mark.usefixtures("store")
def test_a_store_locked_by_another_process_exits_3_and_names_it(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "WAIT_FOR_OWNER", 0.1)
    lock = StoreLock(tmp_path / ".forager" / "lock")
    lock.take()
    try:
        ran = forager("jobs", "list")
    finally:
        lock.release()

    assert ran.code == 3
    assert f"process {os.getpid()} has it, without an API to go through. Wait until it has ended" in ran.err


def test_the_error_for_a_store_whose_owner_has_an_api_names_its_address(tmp_path: Path) -> None:
    lock, second = StoreLock(tmp_path / "lock"), StoreLock(tmp_path / "lock")
    lock.take()
    lock.announce("http://127.0.0.1:8001")
    try:
        with pytest.raises(StoreLocked, match="Use its API at http://127"):
            second.take()
    finally:
        lock.release()


def test_a_schedule_needs_a_unit_and_a_whole_cron_expression(forager: Forager) -> None:
    params = ("-p", "keyword=bars", "-p", "state=RI")
    assert (
        "'6' has no unit; write 90s, 30m, 6h or 1d" in forager("schedules", "add", "bars", "--every", "6", *params).err
    )
    wrong = forager("schedules", "add", "bars", "--cron", "0 6 * *", *params)
    assert (wrong.code, wrong.err.startswith("forager: --cron: '0 6 * *' cannot be used:")) == (2, True)


def test_a_schedule_is_kept_paused_and_removed(forager: Forager) -> None:
    add = ("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "-p", "pages=2")
    refused = forager(*add)
    assert refused.code == 2
    assert "--no-budget" in refused.err
    assert "max_credits" in refused.err
    assert "a month for 122 jobs" in refused.err
    added = forager(*add, "--no-budget")
    assert added.code == 0, added.err
    assert "a month for 122 jobs" in added.out
    assert "without a budget" in added.out
    again = forager(*add, "--no-budget")
    assert again.code not in (0, 2)
    assert "--replace" in again.err
    budget = forager(*add, "-p", "max_credits=3", "--replace")
    assert budget.code == 0, budget.err
    assert "Warning: The budget of 3 credits is below the estimate of" in budget.err

    kept = forager("schedules", "list", "--json").data
    assert [(s["name"], s["every"], s["params"]["pages"]) for s in kept] == [("bars", 21600.0, 2)]
    assert "every 6 h" in forager("schedules", "list").out
    (longer := list(add))[2] = "bars-of-rhode-island-twice-a-day"
    assert forager(*longer, "-p", "max_credits=500").code == 0
    shown = "".join(line.split(" ")[0] for line in forager("schedules", "list").out.splitlines())
    assert "bars-of-rhode-island-twice-a-day" in shown, "a name is not cut"
    assert forager("schedules", "remove", "bars-of-rhode-island-twice-a-day").code == 0
    assert forager("schedules", "pause", "bars", "--json").data["paused"] is True
    assert forager("schedules", "resume", "bars", "--json").data["paused"] is False
    job = forager("schedules", "run", "bars", "--json").data["job_id"]
    assert forager("jobs", "show", job, "--json").data["schedule"] == "bars"
    assert job[:8] in forager("schedules", "list").out
    assert forager("schedules", "remove", "bars").code == 0
    assert forager("schedules", "list", "--json").data == []


def test_the_help_of_a_schedule_names_the_fields_and_actions_of_every_pipeline(forager: Forager) -> None:
    ran = forager("schedules", "add", "--help")
    assert ran.code == 0
    text = " ".join(ran.out.split())
    assert "places: keyword*, " in text
    assert "max_credits" in text
    assert "listings: action* (dispatch_scrapes, decay_and_verify, cleanup_maintenance, scrape," in text
    assert "targets*" in text


def test_a_schedule_has_a_time_zone(forager: Forager) -> None:
    add = ("schedules", "add", "bars", "--cron", "0 6 * * *", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    assert forager(*add, "--timezone", "Asia/Tokyo").code == 0
    (kept,) = forager("schedules", "list", "--json").data
    assert (kept["timezone"], kept["next_at"][11:16]) == ("Asia/Tokyo", "21:00")
    assert "Asia/Tokyo" in forager("schedules", "show", "bars").out
    wrong = forager(*add, "--replace", "--timezone", "Tokio")
    assert (wrong.code, "--timezone" in wrong.err, "America/New_York" in wrong.err) == (2, True, True)


def test_a_schedule_whose_job_is_wrong_is_refused_now(forager: Forager) -> None:
    ran = forager("schedules", "add", "bars", "--cron", "0 6 * * *", "-p", "keyword=bars", "-p", "state=ZA")

    assert ran.code == 2
    assert "did you mean AZ?" in ran.err


@pytest.mark.usefixtures("store")
def test_export_of_nothing_is_a_file_with_a_header(forager: Forager, tmp_path: Path) -> None:
    ran = forager("export", "places", "-f", "csv", "-o", "out.csv", "--json")

    assert ran.data == {"kind": "place", "rows": 0, "output": "out.csv"}
    assert (tmp_path / "out.csv").read_text().startswith("keyword,zip,city,place_uid,"), (
        "the header is there without rows, too"
    )
    assert forager("export", "sighting") == Ran(0, "", "")
    assert forager("export", "sighting", "--as-of", "2026-03-14T12:00:00Z") == Ran(0, "", "")
    ran = forager("export", "sighting", "--as-of", "yesterday")
    assert ran.code == 2
    assert "--as-of: must be a time such as" in ran.err


@pytest.mark.usefixtures("store")
def test_an_unknown_kind_of_record_is_refused_with_the_kinds_there_are(forager: Forager) -> None:
    ran = forager("export", "cats")

    assert ran.code == 2
    assert all(kind in ran.err for kind in ("place", "scrape_result", "sighting"))


@pytest.mark.usefixtures("store")
def test_export_to_an_unwritable_path_names_it(forager: Forager) -> None:
    ran = forager("export", "places", "-o", "no/such/folder/out.csv")

    assert ran.code == 2
    assert "--output" in ran.err


def test_the_schema_goes_down_and_up_again(forager: Forager) -> None:
    assert forager("db", "current", "--json").data == {"revisions": []}

    newest = forager("db", "upgrade", "--json").data["revisions"]
    assert len(newest) >= 2
    assert forager("db", "downgrade", "base", "--yes", "--json").data == {"revisions": []}
    assert forager("db", "upgrade", "--json").data["revisions"] == newest
    assert forager("jobs", "list", "--json").data == []


def test_doctor_is_content_with_a_fresh_machine(forager: Forager, tmp_path: Path) -> None:
    ran = forager("doctor")

    assert ran.code == 0, ran.out
    assert "SERPER_API_KEY" in ran.out
    assert not (tmp_path / ".forager").exists()


@pytest.mark.usefixtures("store")
def test_doctor_names_problems_and_remedies(forager: Forager, tmp_path: Path) -> None:
    forager("jobs", "list")
    key = tmp_path / ".forager" / "service.key"
    key.write_text("x" * 40)
    key.chmod(0o644)

    ran = forager("doctor")
    told = forager("doctor", "--json")

    assert (ran.code, told.code) == (1, 1)
    assert "chmod 600 .forager/service.key" in ran.out
    wrong = [check["check"] for check in told.data["checks"] if check["state"] == "problem"]
    assert (wrong, told.data["ok"]) == (["service.key"], False)


def test_doctor_tries_the_broker_and_shows_no_password(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("FORAGER_BROKER_URL", f"redis://:s3cret-word@127.0.0.1:{port}/0")
        assert f"127.0.0.1:{port} answers" in forager("doctor").out
    ran = forager("doctor")
    assert ran.code == 1
    assert f"127.0.0.1:{port} does not answer" in ran.out
    monkeypatch.setenv("FORAGER_BROKER_URL", "s3cret-word")
    told = forager("doctor")
    assert "not a valid URL of a broker" in told.out
    assert "s3cret-word" not in ran.all + told.all


def test_doctor_tries_kafka_and_elasticsearch(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("FORAGER_KAFKA_BROKERS", f"127.0.0.1:{port},127.0.0.1:1")
        monkeypatch.setenv("FORAGER_ELASTICSEARCH_URL", f"http://127.0.0.1:{port}")
        ran = forager("doctor")
    assert f"✓ kafka       127.0.0.1:{port} answers" in ran.out
    assert "✗ kafka       127.0.0.1:1 does not answer" in ran.out
    assert f"✓ search      127.0.0.1:{port} answers" in ran.out
    assert "1 problem found: kafka." in ran.err


def test_a_file_that_is_no_store_is_named_and_doctor_shows_how_to_replace_it(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / ".forager").mkdir()
    (tmp_path / ".forager" / "ledger.db").write_text("not a database at all" * 10)

    listed, doctor = forager("jobs", "list"), forager("doctor", "--json")

    assert (listed.code, doctor.code) == (69, 1)
    assert "file is not a database. Run `forager doctor`" in listed.err
    (store,) = [each for each in doctor.data["checks"] if each["check"] == "store"]
    assert "move it away" in store["remedy"]
    assert "FORAGER_DATABASE_URL" not in store["remedy"]


def test_doctor_reports_a_setting_that_is_wrong_instead_of_failing(
    forager: Forager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_PORT", "many")

    ran = forager("doctor")

    assert ran.code == 1
    assert "FORAGER_PORT" in ran.out


def test_a_wrong_setting_stops_every_command_with_its_name(forager: Forager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORAGER_PORT", "many")

    ran = forager("jobs", "list")

    assert ran.code == 2
    assert "FORAGER_PORT" in ran.err


def test_a_bind_beyond_this_machine_is_refused_without_a_strong_key(
    forager: Forager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_SERVICE_KEY", "password")

    ran = forager("up", "--host", "0.0.0.0")

    assert ran.code == 2
    assert "strong service key" in ran.err
    assert "password" not in ran.err


def test_debug_shows_where_an_error_came_from_and_nothing_else_does(forager: Forager) -> None:
    plain, debug = forager("jobs", "show", NOBODY), forager("--debug", "jobs", "show", NOBODY)

    assert "Traceback" not in plain.err
    assert "Traceback" in debug.err
    assert (plain.code, debug.code) == (4, 4)
