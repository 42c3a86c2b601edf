"""The log: whole JSON lines of bounded length, without secrets, which nobody can forge."""

import ast
import io
import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import structlog
from pydantic import SecretStr

import forager
from forager.core.errors import Permanent
from forager.logging import _Lines, configure_logs
from tests.support.logs import logging_to

SOURCES = Path(forager.__file__).parent
LEVELS = ("debug", "info", "warning", "error", "exception", "critical")
FOREIGN = "runners/prefect/flows.py"
"""Logs with Prefect's own logger, whose lines are sentences."""
CANARY = "canary/5d41402abc+4b2a76&b9719d"
FORGED = '2026-01-01 [info     ] forged\n{"level":"info","event":"forged"}'


class Stream(io.StringIO):
    """Standard error in a test: a text stream that may claim to be a terminal."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]

    @property
    def only(self) -> dict[str, Any]:
        (line,) = self.lines
        return line


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stream]:
    # Prefect, if a test of this process has loaded it, has ended the way of these lines here.
    monkeypatch.setattr(logging.getLogger("uvicorn"), "propagate", True)
    with logging_to(Stream(), "INFO", secrets=[CANARY]) as out:
        yield out


@pytest.fixture
def console(stream: Stream) -> Stream:
    out = Stream()
    configure_logs("INFO", "console", [CANARY], stream=out)
    return out


def leave_ours_alone() -> None:
    """Takes pytest's own handlers off, which raise what a formatter raises."""
    logging.root.handlers[:] = [handler for handler in logging.root.handlers if isinstance(handler, _Lines)]


log = structlog.get_logger("forager.test")


# --- form


def test_a_line_is_json_with_time_level_event_and_request__SC_15(stream: Stream) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        log.warning("the lane slows down", lane="serper", rate=240)

    line = stream.only
    assert datetime.now(UTC) - datetime.fromisoformat(line.pop("timestamp")) < timedelta(minutes=1)
    assert line == {
        "level": "warning",
        "event": "the lane slows down",
        "logger": "forager.test",
        "request_id": "r-1",
        "lane": "serper",
        "rate": 240,
    }


def test_lines_of_libraries_have_the_same_form__SC_15(stream: Stream) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        logging.getLogger("uvicorn.error").warning("started on %s", "127.0.0.1")

    assert stream.only | {"timestamp": ""} == {
        "timestamp": "",
        "level": "warning",
        "event": "started on 127.0.0.1",
        "logger": "uvicorn.error",
        "request_id": "r-1",
    }


def test_a_starting_and_stopping_server_logs_only_our_own_lines(stream: Stream) -> None:
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")

    assert stream.getvalue() == ""


def test_what_is_below_the_level_is_not_written(stream: Stream) -> None:
    log.debug("no")
    logging.getLogger("some.library").debug("no")
    logging.getLogger("httpx").info("no")
    logging.getLogger("asyncpg.pool").warning("no")
    log.info("yes")

    assert stream.only["event"] == "yes"


def test_a_later_call_replaces_the_former(stream: Stream) -> None:
    later = Stream()
    configure_logs("DEBUG", "json", stream=later)
    log.debug("once")

    assert stream.getvalue() == ""
    assert later.only["event"] == "once"


@pytest.mark.parametrize(("terminal", "is_json"), [(False, True), (True, False)])
def test_auto_is_json_unless_it_is_a_terminal(stream: Stream, terminal: bool, is_json: bool) -> None:
    out = Stream(terminal=terminal)
    configure_logs("INFO", "auto", stream=out)
    log.info("hello")

    assert out.getvalue().startswith("{") == is_json
    assert "hello" in out.getvalue()


def test_values_of_every_type_are_written(stream: Stream) -> None:
    leave_ours_alone()

    class Unprintable:
        def __str__(self) -> str:
            raise RuntimeError("no")

    cycle: list[Any] = []
    cycle.append(cycle)
    log.info(
        "values",
        money=Decimal("0.30"),
        at=datetime(2026, 1, 1, tzinfo=UTC),
        status=HTTPStatus.OK,
        raw=b"\xff\x00ok",
        nan=float("nan"),
        huge=10**5000,
        odd=Unprintable(),
        error=Permanent("broken"),
        cycle=cycle,
        nothing=None,
        **{"a\nb": {1: {2, 3}}},
    )

    line = stream.only
    assert line["money"] == "0.30"
    assert line["status"] == 200
    assert line["nan"] == "nan"
    assert line["odd"] == "<Unprintable>"
    assert line["error"] == "Permanent: broken"
    assert line["a\nb"] == {"1": [2, 3]}
    assert line["nothing"] is None


def test_a_record_that_cannot_be_formatted_does_not_break_its_caller_nor_show_its_arguments(stream: Stream) -> None:
    leave_ours_alone()
    logging.getLogger("some.library").info("%d", CANARY)

    assert stream.only["event"] == "log_line_lost"


def test_a_closed_stream_does_not_break_the_caller(stream: Stream) -> None:
    leave_ours_alone()
    stream.close()
    log.error("nobody hears this")


# --- secrets


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def chained() -> Exception:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise Permanent(f"Serper refused {CANARY}") from cause
    except Permanent as caught:
        caught.add_note(f"sent {CANARY}")
        return caught


PATHS: dict[str, Callable[[Any], None]] = {
    "the event": lambda out: out.info(f"sent {CANARY} away"),
    "a positional argument": lambda out: out.info("sent %s", CANARY),
    "a value": lambda out: out.info("x", note=f"<{CANARY}>"),
    "a nested value": lambda out: out.info("x", a={"b": [{"c": (f"<{CANARY}>",)}]}),
    "a set": lambda out: out.info("x", a={CANARY}),
    "a key": lambda out: out.info("x", a={CANARY: 1}),
    "bytes": lambda out: out.info("x", body=f"q={CANARY}".encode()),
    "an object": lambda out: out.info("x", thing=ValueError(CANARY)),
    "a SecretStr": lambda out: out.info("x", note=SecretStr(CANARY)),
    "an exception": lambda out: out.error("x", exc_info=raised(ValueError(f"bad {CANARY}"))),
    "a chain with notes": lambda out: out.error("x", exc_info=chained()),
    "a quoted query": lambda out: out.info("x", q="k=canary%2F5d41402abc%2B4b2a76%26b9719d"),
    "the path of a URL": lambda out: out.info("x", url=f"https://host/{CANARY}/x"),
    "a megabyte around it": lambda out: out.info("x", body="a " * 32_760 + CANARY + "b" * 1_000_000),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("form", ["json", "console"])
def test_a_known_secret_is_nowhere_in_the_log__S8(stream: Stream, form: Any, path: str) -> None:
    out = Stream()
    configure_logs("INFO", form, [CANARY], stream=out)

    PATHS[path](log)

    text = out.getvalue()
    assert text
    assert "canary" not in text
    assert "5d41402abc" not in text
    assert "***" in text


def test_without_redaction_the_canary_would_show__S8(stream: Stream) -> None:
    """The control: the paths above do carry the secret to the log."""
    for path, write in PATHS.items():
        out = Stream()
        configure_logs("INFO", "json", [], stream=out)
        write(log)
        assert ("canary" in out.getvalue()) != (path == "a SecretStr"), path


def test_a_secret_in_a_librarys_line_is_taken_out__S8(stream: Stream) -> None:
    logging.getLogger("some.library").warning("header %s", {"X-API-KEY": CANARY}, exc_info=raised(ValueError(CANARY)))

    assert "canary" not in stream.getvalue()
    assert "ValueError: ***" in stream.only["exception"]


def test_a_secret_bound_to_the_request_is_taken_out__S8(stream: Stream) -> None:
    with structlog.contextvars.bound_contextvars(client_request_id=CANARY):
        log.info("x")

    assert stream.only["client_request_id"] == "***"


@pytest.mark.parametrize(
    "name",
    [
        "key",
        "api_key",
        "X-API-KEY",
        "X-Service-Key",
        "apiKey",
        "token",
        "accessToken",
        "Authorization",
        "password",
        "webhook_secret",
        "Set-Cookie",
        "credentials",
        "webhook-signature",
        "database_url",
        "database_direct_url",
    ],
)
def test_a_field_is_redacted_by_its_name__S8(stream: Stream, name: str) -> None:
    log.info("x", **{name: "unknown-1"}, headers={name: ["unknown-2"]})

    assert stream.only[name] == "***"
    assert "unknown" not in stream.getvalue()


@pytest.mark.parametrize("name", ["keyword", "keys_count", "tokens", "monkey", "state", "author", "secretary"])
def test_a_field_with_a_harmless_name_is_kept(stream: Stream, name: str) -> None:
    log.info("x", **{name: "bars"})

    assert stream.only[name] == "bars"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Bearer abc.DEF-123", "Authorization"),
        ("sent 'Bearer abcDEF123' there", "there"),
        ("postgresql://user:abcDEF123@host:5432/db is down", "@host:5432/db is down"),
        ("GET /x?api_key=abcDEF123&page=2", "page=2"),
        ("{'X-API-KEY': 'abcDEF123', 'a': 1}", "'a': 1"),
        ("[(b'x-service-key', b'abcDEF123')] token=abcDEF123", "token"),
        ('{\\"password\\": \\"abcDEF123\\", \\"n\\": 1}', "n"),
    ],
)
def test_credentials_are_known_by_their_form__S8(stream: Stream, text: str, kept: str) -> None:
    log.info(text)

    event = stream.only["event"]
    assert "abcDEF123" not in event
    assert "abc.DEF" not in event
    assert kept in event


def test_a_url_is_written_without_its_query__SC_15(stream: Stream) -> None:
    log.info("x", target_url="https://host/path?email=a@b.c", proxy_used="p-1")

    assert stream.only["target_url"] == "https://host/path"


def test_a_short_secret_does_not_take_the_log_apart(stream: Stream) -> None:
    out = Stream()
    configure_logs("INFO", "json", ["", "e", "dev"], stream=out)
    log.info("developer")

    assert out.only["event"] == "developer"


# --- bounds and forgery


@pytest.mark.parametrize(
    "fields",
    [
        {"a": "x" * 1_000_000},
        {"a": "é" * 100_000},
        {"a": "\n" * 100_000},
        {"a": ["x" * 100] * 100_000},
        {"a": {str(number): "x" * 1000 for number in range(500)}},
        {f"a{number}": "x" * 1000 for number in range(200)},
        {f"a{number}": '"' * 1000 for number in range(5000)},
        {"x" * 100_000: 1},
    ],
)
@pytest.mark.parametrize("form", ["json", "console"])
def test_a_line_is_cut_at_sixteen_kilobytes_and_stays_valid(stream: Stream, form: Any, fields: dict[str, Any]) -> None:
    out = Stream()
    configure_logs("INFO", form, stream=out)
    log.info("the event", **fields)

    text = out.getvalue()
    assert len(text.encode()) <= 16 * 1024
    assert text.count("\n") == 1
    assert "the event" in text
    if form == "json":
        assert out.only["event"] == "the event"
        assert out.only["cut_from"] > 16 * 1024


def test_of_a_long_traceback_the_end_is_kept(stream: Stream) -> None:
    log.error("x", exc_info=raised(ValueError("start " + "x" * 30_000 + " the end")))

    assert stream.only["exception"].endswith("the end")
    assert stream.only["exception"].startswith("Traceback")


def test_pages_of_megabytes_do_not_hold_up_the_loop(stream: Stream) -> None:
    hostile = ["key " * 2_000_000, "://" * 2_000_000, "bearer " * 1_000_000, "a" * 8_000_000, "key=" * 2_000_000]
    started = time.process_time()
    for text in hostile:
        log.info("x", body=text)

    assert time.process_time() - started < 2.0


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\x85", "\u2028", "\u2029", "\x0b", "\x0c", "\x1e"])
def test_a_stranger_cannot_forge_a_line(stream: Stream, ending: str) -> None:
    log.info(f"a{ending}{FORGED}", note=f"b{ending}{FORGED}", **{f"k{ending}{FORGED}": 1})

    assert len(stream.getvalue().splitlines()) == 1
    assert stream.only["event"].startswith("a")


@pytest.mark.parametrize("ending", ["\n", "\r", "\x1b[2J\x1b[H", "\x9b2J", "\u2028", "\u202e", "\x08"])
def test_a_stranger_cannot_forge_a_line_on_a_terminal(console: Stream, ending: str) -> None:
    log.info(f"a{ending}{FORGED}", note=[f"b{ending}{FORGED}"], **{f"k{ending}{FORGED}": 1})

    assert len(console.getvalue().splitlines()) == 1
    assert ending.rstrip("\n") == "" or ending not in console.getvalue()


def test_a_traceback_on_a_terminal_is_indented_so_that_none_of_it_looks_like_a_line(console: Stream) -> None:
    log.error("x", exc_info=raised(ValueError(f"bad\n{FORGED}\x1b[2J")))

    first, *rest = console.getvalue().splitlines()
    assert "x" in first
    assert any("forged" in line for line in rest)
    assert all(line.startswith("    ") for line in rest if line)
    assert "\x1b" not in console.getvalue()


def _events(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and the event of every call of a logger; of a formatted event, its constant parts."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and node.args):
        is_logger = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value).split(".")[-1] in (
            "log",
            "_log",
        )
        if isinstance(call.func, ast.Attribute) and is_logger and call.func.attr in LEVELS:
            for each in ast.walk(call.args[0]):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield call.lineno, each.value


def test_every_event_is_one_snake_case_name() -> None:
    """Fields hold what differs, so that a search finds all lines of an event."""
    files = [path for path in SOURCES.rglob("*.py") if not path.as_posix().endswith(FOREIGN)]
    events = [(path.relative_to(SOURCES).as_posix(), *each) for path in files for each in _events(path.read_text())]
    assert len(events) > 50
    assert [each for each in events if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]*)*", each[2])] == []
