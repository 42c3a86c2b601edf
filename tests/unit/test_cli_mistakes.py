"""Users' mistakes at the command line: each is named with its remedy, and none looks like our fault."""

import json
import socket
from pathlib import Path

import pytest

from tests.support.cli import Forager

NOT_TEXT = "x\udcff"
"""A byte of the command line that is not UTF-8, as Python hands it on."""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["places", "plan", "-k", "bars", "-s", "RI", "--max-credits", "9" * 20], "--max-credits"),
        (["places", "run", "--dry-run", "-k", "bars", "-s", "RI", "--batch-size", "9" * 20], "--batch-size"),
        (["lanes", "set", "example.com", "--new", "--min-delay", "9" * 20], "--min-delay"),
        (["lanes", "set", "example.com", "--new", "--hours", f"2-{'9' * 20}"], "--hours end"),
        (["lanes", "set", "example.com", "--new", "--tokens", "nan"], "--tokens"),
    ],
)
def test_a_number_that_nothing_can_carry_is_named(forager: Forager, arguments: list[str], named: str) -> None:
    ran = forager(*arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 2)
    assert f"  {named}: " in ran.err
    assert "give an ordinary number" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["places", "plan", "-k", NOT_TEXT, "-s", "RI"],
        ["schedules", "run", NOT_TEXT],
        ["jobs", "list", "--state", NOT_TEXT],
        ["places", "run", "--dry-run", "-k", "bars", "-s", "RI", "--idempotency-key", "日本"],
        ["places", "run", "--dry-run", "-k", "bars", "-s", "RI", "--idempotency-key", "a\nb"],
    ],
    ids=["body", "path", "query", "header", "header of two lines"],
)
@pytest.mark.usefixtures("store")
def test_text_that_cannot_be_sent_exits_2(forager: Forager, arguments: list[str]) -> None:
    ran = forager(*arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["places", "plan", "-k", "bars", "-s", "RI", "--pages", "99"], "  --pages: must be at most 10\n"),
        (["places", "plan", "-k", "bars", "-z", "02903", "-z", "x"], "  --zip: a ZIP is five digits"),
        (["scrape", "https://example.com/", "--as", "poem"], "  --as: unknown target type 'poem'"),
        (["scrape", "example.com", "--as", "job_posting"], "  URL: not a valid http(s) URL"),
        (
            ["crawl", "https://shop.example/", "--recrawl", "6s"],
            "  --recrawl: must be at least a minute and at most 366",
        ),
    ],
)
def test_an_error_names_the_option_and_not_the_field_of_the_api(
    forager: Forager, arguments: list[str], told: str
) -> None:
    ran = forager(*arguments)

    assert ran.code == 2
    assert told in ran.err
    assert not any(word in ran.err for word in ("Value error", "Input should", "Tuple", "permitted"))
    fields = json.loads(forager(*arguments, "--json").err)["error"]["fields"]
    assert not fields[0]["field"].startswith("-"), "programs read the names of the API"


@pytest.mark.parametrize(
    "arguments",
    [["--home", "there", "db", "upgrade"], ["db", "--home=there", "upgrade"], ["db", "upgrade", "--home", "there"]],
    ids=" ".join,
)
def test_the_data_folder_may_be_named_anywhere(forager: Forager, tmp_path: Path, arguments: list[str]) -> None:
    assert forager(*arguments).code == 0
    assert (tmp_path / "there" / "ledger.db").exists()
    assert not (tmp_path / ".forager").exists()


@pytest.mark.parametrize(
    "arguments", [["jobs", "list"], ["db", "upgrade"], ["db", "rotate-key"], ["demo"]], ids=" ".join
)
def test_a_data_folder_that_is_a_file_is_named(forager: Forager, tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "afile").touch()

    ran = forager("--home", "afile", *arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "afile") in ran.err
    assert "--home" in ran.err


def test_a_data_folder_that_cannot_be_made_is_named(forager: Forager) -> None:
    ran = forager("--home", "/proc/nope", "lanes", "pause", "serper")

    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "/proc/nope cannot be used: No such file or directory. Name one" in ran.err


def test_a_parameter_that_is_no_text_is_named_with_how_to_write_it(forager: Forager) -> None:
    ran = forager("schedules", "add", "x", "--every", "6h", "-p", "keyword=2024", "-p", "state=RI")

    assert ran.code == 2
    assert """write -p keyword='"2024"'""" in ran.err


def test_what_is_wrong_with_the_whole_job_names_no_body(forager: Forager) -> None:
    ran = forager("places", "plan", "-k", "bars")

    assert ran.code == 2
    assert ran.err.splitlines()[1].startswith("  give --state")


@pytest.mark.parametrize("arguments", [["upgrade", "nonsense"], ["downgrade", "nonsense", "--yes"]], ids=" ".join)
@pytest.mark.usefixtures("store")
def test_a_revision_that_there_is_not_is_named(forager: Forager, arguments: list[str]) -> None:
    ran = forager("db", *arguments)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert "'nonsense'" in ran.err


def test_a_file_of_zips_that_is_no_text_is_named(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "zips").write_bytes(b"\xff\xfe8")

    ran = forager("places", "plan", "-k", "bars", "--zips-from", "zips")

    assert ran.code == 2
    assert "--zips-from: zips cannot be read: it is not UTF-8 text" in ran.err


@pytest.mark.parametrize("option", ["--port", "--site-port", "--receiver-port"])
def test_a_port_that_is_taken_is_named_by_the_sandbox(forager: Forager, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        ran = forager("sandbox", option, port)

    assert (ran.code, ran.out) == (2, "")
    assert f"port {port}: Address already in use" in ran.err
    assert option in ran.err


def test_a_log_that_the_sandbox_cannot_write_is_named(forager: Forager) -> None:
    ran = forager("sandbox", "--log-path", "no/such/folder/log")

    assert (ran.code, ran.out) == (2, "")
    assert "no/such/folder/log cannot be written (No such file or directory)" in ran.err
    assert "--log-path" in ran.err


@pytest.mark.parametrize("command", [["add", "..", "--every", "6h"], ["run", "."], ["remove", "a/b c"], ["pause", ""]])
@pytest.mark.usefixtures("store")
def test_a_name_that_is_no_part_of_an_address_is_refused_before_it_becomes_one(
    forager: Forager, command: list[str]
) -> None:
    ran = forager("schedules", *command)

    assert ran.code == 2
    assert "is not a valid name; use letters, digits" in ran.err


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("uri=https://a.example/", "--option uri: unknown option; choose from url."),
        ("url=receiver", "--option url: not a valid http(s) URL: it should begin with https:// or http://."),
        ("url=http://10.0.0.1/", "--option url: 10.0.0.1 port 80 is not a public web address. To permit it, add its"),
        ("url=ftp://a.example/", "--option url: the scheme 'ftp' is refused: only http and https are fetched."),
    ],
)
def test_an_invalid_option_of_a_sink_is_named_with_the_valid_ones(forager: Forager, option: str, told: str) -> None:
    ran = forager("sinks", "add", "prices", "--type", "webhook", "-o", option)

    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err


def test_a_worker_for_a_queue_that_no_lane_has_is_refused_instead_of_waiting_for_ever(forager: Forager) -> None:
    ran = forager("worker", "--queue", "scraping", "--queue", "scrapping")

    assert ran.code == 2
    assert "--queue: unknown queue 'scrapping'; choose from " in ran.err
    assert ", scraping." in ran.err


@pytest.mark.usefixtures("store")
def test_a_single_mistake_is_reported_once(forager: Forager) -> None:
    ran = forager("export", "nosuch")

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert ran.err.startswith("forager: Unknown record kind 'nosuch'; choose from account, ")
