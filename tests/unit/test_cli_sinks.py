"""`forager sinks` on a store of its own: what it prints, and what it refuses."""

import sqlite3
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from forager.app.checks import EXTRAS, check_sinks
from forager.app.config import new_settings
from forager.core.sink import SinkRow
from forager.pipelines.watches.observe import _shown
from forager.sinks.kafka.wiring import check as check_kafka
from forager.sinks.postgres.settings import PostgresSinkSettings
from forager.sinks.postgres.wiring import check as check_postgres
from tests.support.cli import Forager
from tests.support.ports import free_ports


@pytest.mark.usefixtures("store")
def test_sinks_are_listed_shown_paused_and_resumed(forager: Forager) -> None:
    assert "webhook" in forager("sinks", "list").out
    assert forager("sinks", "pause", "webhook").out == "Paused webhook.\n"
    assert "paused" in forager("sinks", "list").out
    assert forager("sinks", "show", "webhook", "--json").data["state"] == "paused"
    assert forager("sinks", "resume", "webhook").out == "Resumed webhook.\n"
    shown = forager("sinks", "show", "webhook").out
    assert "change 0" in shown
    assert "0 changes" in shown


@pytest.mark.usefixtures("store")
def test_a_replay_prints_the_number_of_repeated_changes(forager: Forager) -> None:
    assert forager("places", "plan", "--keyword", "bars", "--zip", "85001").code == 0
    ran = forager("sinks", "replay", "webhook")
    assert ran.code == 0
    assert "webhook continues after change 0: 0 changes to deliver." in ran.out
    assert "No worker is running" in ran.out
    assert forager("sinks", "replay", "webhook", "--after", "1000000").code == 2


@pytest.mark.usefixtures("store")
def test_refused_changes_are_listed_retried_and_discarded_one_or_all(forager: Forager) -> None:
    assert "webhook has no refused changes" in forager("sinks", "refused", "webhook").err
    assert forager("sinks", "refused", "webhook", "--json").data == []
    assert "0 changes will be delivered again." in forager("sinks", "retry", "webhook").out
    assert forager("sinks", "retry", "webhook", "7").code == 4
    assert forager("sinks", "discard", "webhook").code == 2
    assert forager("sinks", "discard", "webhook", "7", "--all").code == 2
    assert forager("sinks", "discard", "webhook", "--all").out == "0 changes discarded.\n"


def test_a_sink_is_added_and_removed_but_not_one_of_the_settings(forager: Forager) -> None:
    assert "kafka" in forager("sinks", "types").out
    hook = ("--type", "webhook", "-k", "place", "-o", "url=https://receiver.example/a", "--from-now")
    assert "Added places. 0 changes to deliver." in forager("sinks", "add", "places", *hook).out
    shown = forager("sinks", "show", "places").out
    assert "url=https://receiver.example/a" in shown
    assert forager("sinks", "add", "places", *hook).code == 5
    assert "choose from" in forager("sinks", "add", "pets", "--type", "webhook", "-k", "pets").err
    assert forager("sinks", "add", "pets", "--type", "webhook", "-o", "url").code == 2
    assert "unknown type 'pets'" in forager("sinks", "add", "pets", "--type", "pets").err
    assert "come from the settings alone" in forager("sinks", "add", "pets", "--type", "search").err
    assert forager("sinks", "remove", "places").out == "Removed places.\n"
    assert forager("sinks", "remove", "webhook").code == 5
    assert forager("sinks", "remove", "nothing").code == 4
    assert forager("sinks", "show", "nothing").code == 4


def _checks(forager: Forager) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in forager("doctor", "--json").data["checks"]}


@pytest.mark.usefixtures("store")
def test_a_sink_that_cannot_work_is_refused_with_the_remedy(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("FORAGER_FILES_FOLDER", str(tmp_path / "file"))
    refused = forager("sinks", "add", "exports", "--type", "files")
    assert refused.code == 2
    assert "cannot be written (Not a directory). Change its owner, or FORAGER_FILES_FOLDER." in refused.err

    monkeypatch.setenv("FORAGER_FILES_FOLDER", str(tmp_path / "files"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    refused = forager("sinks", "add", "exports", "--type", "files", "-o", "format=parquet")
    assert refused.code == 2
    assert "pip install 'forager-data[parquet]'" in refused.err

    monkeypatch.setenv("FORAGER_BIGQUERY_PROJECT_ID", "my-project-1234")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    refused = forager("sinks", "add", "mirror", "--type", "bigquery")
    assert refused.code == 2
    assert "missing.json cannot be read (No such file or directory)" in refused.err

    refused = forager("sinks", "add", "hook", "--type", "webhook", "-o", "url=nonsense")
    assert refused.code == 2
    assert "options.url" in refused.err or "--option" in refused.err
    assert {each["name"] for each in forager("sinks", "list", "--json").data} == {"search", "webhook"}
    assert forager("sinks", "add", "exports", "--type", "files").code == 0, "what can work is added"


@pytest.mark.usefixtures("store")
def test_a_condition_is_checked_shown_and_joined_with_changed_fields(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORAGER_FILES_FOLDER", str(tmp_path / "files"))
    add = ("sinks", "add", "drops", "--type", "files", "--kind", "product")
    refused = forager(*add, "--where", "old.prise > price")
    assert refused.code == 2
    assert "there is no field 'prise'; did you mean 'price'? (at character 5)" in refused.err
    assert "needs the kinds" in forager("sinks", "add", "drops", "--type", "files", "--where", "price < 1").err
    assert forager(*add, "--where", "old.price > price", "--changed", "price", "--changed", "availability").code == 0
    wanted = "(old.price > price) and (changed(price) or changed(availability))"
    shown = forager("sinks", "show", "drops", "--json").data
    assert (shown["where"], shown["options"]["format"]) == (wanted, "jsonl")
    assert wanted in " ".join(forager("sinks", "show", "drops").out.split())


@pytest.mark.usefixtures("store")
def test_what_may_pass_is_a_warning_when_a_sink_is_added(forager: Forager) -> None:
    broker = f"127.0.0.1:{free_ports(1)[0]}"
    service: Any = SimpleNamespace(settings=new_settings(kafka_brokers=(broker,)))
    (warning,) = check_kafka(service, SinkRow("events", "kafka"))
    assert f"{broker} does not answer now" in warning
    port = free_ports(1)[0]
    url = f"postgresql://user:canary@127.0.0.1:{port}/x"
    own = PostgresSinkSettings(postgres_sink_url=url)
    mirror: Any = SimpleNamespace(settings=SimpleNamespace(of=lambda _: own))
    (warning,) = check_postgres(mirror, SinkRow("pg", "postgres"))
    assert warning == f"The PostgreSQL at 127.0.0.1:{port} does not answer now: Connection refused. It is retried."
    hook = forager("sinks", "add", "hook", "--type", "webhook", "-o", "url=https://receiver.example/a")
    assert hook.code == 0
    assert "Warning: FORAGER_WEBHOOK_SECRET is not set" in hook.err


def test_doctor_has_lines_about_credentials_packages_and_failing_sinks(
    forager: Forager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.app.checks._has", lambda module: module not in ("obstore", "pyarrow"))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "missing.json"))
    before = _checks(forager)
    assert before["google credentials"]["state"] == "problem"
    assert "missing.json cannot be read" in before["google credentials"]["message"]
    assert before["extras"]["state"] == "note", "nothing that is set needs them"
    assert "parquet (files in Parquet); s3 (files and pages in S3)" in before["extras"]["message"]
    assert "pip install 'forager-data[parquet,s3]'" in before["extras"]["remedy"]
    assert "sinks" not in before, "there is no store yet"
    assert not (tmp_path / ".forager" / "ledger.db").exists(), "doctor makes none"

    (tmp_path / "missing.json").write_text("{}")
    monkeypatch.setattr("forager.app.checks._has", lambda module: module != "confluent_kafka")
    forager("lanes", "set", "serper", "--rate", "100/s")
    assert _checks(forager)["sinks"]["message"] == "2 sinks, none of them fails"
    with sqlite3.connect(tmp_path / ".forager" / "ledger.db") as ledger:
        ledger.execute(
            "INSERT INTO cursors (sink, position, moved_at, failures, error, error_at, failing_since)"
            " VALUES ('webhook', 0, 1, 3, 'It does not answer.', 1000, 1000)"
        )
    monkeypatch.setenv("FORAGER_BIGQUERY_PROJECT_ID", "my-project-1234")
    monkeypatch.setattr("forager.app.checks._has", lambda module: module != "google.cloud.bigquery")
    after = _checks(forager)
    assert after["google credentials"]["state"] == "ok"
    assert after["extra bigquery"]["state"] == "problem"
    assert "FORAGER_BIGQUERY_PROJECT_ID is set" in after["extra bigquery"]["message"]
    assert after["sink webhook"]["state"] == "problem"
    assert "failing since 1970-01-01 00:00:01 UTC" in after["sink webhook"]["message"]
    assert "Last error: It does not answer." in after["sink webhook"]["message"]
    assert "Start or correct the receiver" in after["sink webhook"]["remedy"]
    assert "forager sinks show webhook" in after["sink webhook"]["remedy"]
    assert forager("doctor").code == 1


@pytest.mark.parametrize(("key", "state"), [("s3cret-key-of-the-backend-0123456789", "ok"), ("", "problem")])
def test_doctor_names_the_credential_backend_in_plain_words(
    forager: Forager, monkeypatch: pytest.MonkeyPatch, key: str, state: str
) -> None:
    monkeypatch.setenv("FORAGER_BACKEND_API_URL", "https://backend.example")
    if key:
        monkeypatch.setenv("FORAGER_BACKEND_SERVICE_KEY", key)
    checks = _checks(forager)
    assert checks["credential backend"]["state"] == state
    assert "log-ins" not in str(checks)


@pytest.mark.parametrize(("value", "shown"), [([1], "1 item"), ([], "0 items"), ([1, 2], "2 items")])
def test_one_item_of_a_watch_is_singular(value: list[int], shown: str) -> None:
    assert _shown(value) == shown


def test_doctor_checks_every_extra_of_the_package() -> None:
    declared = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = set(declared["project"]["optional-dependencies"])
    assert set(EXTRAS) == extras - {"browser"}, "the browser has a check of its own"


@pytest.mark.parametrize(
    ("sink", "state", "words"),
    [
        ({"problem": "its type is not installed"}, "problem", "cannot be delivered: its type is not installed"),
        (
            {"failures": 2, "waiting": 1, "error": "It is away."},
            "problem",
            "failing, 1 message waits. Last error: It is",
        ),
        ({"failures": 2, "configured": False, "error": "It is away."}, "note", "No setting here configures it."),
        ({"set_aside": 1}, "note", "it refused 1 change"),
    ],
)
def test_doctor_reports_the_problem_of_a_sink(sink: dict[str, Any], state: str, words: str) -> None:
    listed = {"name": "hooks", "problem": None, "failures": 0, "failing_since": None, "waiting": 0, "error": None}
    (found,) = check_sinks([{**listed, "configured": True, "set_aside": 0, **sink}])
    assert (found.check, found.state) == ("sink hooks", state)
    assert words in found.message
    assert "forager sinks" in found.remedy
