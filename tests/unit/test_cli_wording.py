"""A wrong value of any option or argument is reported in plain words, with the option's own name (issue 14)."""

import asyncio
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from forager.api.serve import running
from forager.cli.feature_commands import FeatureCommand
from forager.cli.root import app
from forager.sdk.cli.invocation import ExitCode
from tests.support.api import KEY, open_front
from tests.support.cli import Forager
from tests.support.wording import raw_words

OWN_PROCESS = ("demo", "up", "worker", "sandbox", "doctor", "db")
"""They start processes or change the schema; their options are tested elsewhere."""
FIELD_OF_THE_API = re.compile(r"^ +[a-z][a-z0-9_.-]*: .*", re.MULTILINE)
ALSO = {"schedules add": ("-p", "keyword=bars", "-p", "state=AZ")}
GOOD = {
    "access_token": "token.txt",
    "address": "http://127.0.0.1:8",
    "change": "1",
    "city": "Boston",
    "domain": "shop.example",
    "every": "6h",
    "file": "pages.jsonl",
    "job": "0123abcd",
    "keyword": "bars",
    "kind": "place",
    "lane": "example.com",
    "listing": "7",
    "market": "boston",
    "number": "1",
    "product": "7",
    "sink": "webhook",
    "state": "MA",
    "target_url": "nowhere",
    "task": "1-1",
    "token_file": "token.txt",
    "url": "http://127.0.0.1:9/",
    "words": "oak",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an API without an engine: nothing that a command creates is worked on."""
    loop, up, end, address = asyncio.new_event_loop(), threading.Event(), asyncio.Event(), ""

    async def serve() -> None:
        nonlocal address
        home = tmp_path_factory.mktemp("served")
        async with open_front(home) as front, running(front.api, host="127.0.0.1", port=0) as address:
            up.set()
            await end.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(60)
    yield address
    loop.call_soon_threadsafe(end.set)
    thread.join(60)
    loop.close()


@pytest.fixture
def asking(forager: Forager, served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forager:
    (tmp_path / "token.txt").write_text("abc")
    (tmp_path / "pages.jsonl").write_text("nowhere\n")
    monkeypatch.setenv("FORAGER_API_URL", served)
    monkeypatch.setenv("FORAGER_SERVICE_KEY", KEY)
    return forager


def test_no_command_answers_with_the_words_of_a_validator_or_the_names_of_the_api(asking: Forager) -> None:
    bad, asked = [], 0
    for path, command in _commands(get_command(app), []):
        if path == ["mcp"]:
            continue  # it answers on the standard streams of a process, not to a person
        for parameter in command.params:
            for value in _wrong(parameter):
                ran = asking(*_line(path, command, parameter, value))
                asked += 1
                told = [*raw_words(ran.err), *FIELD_OF_THE_API.findall(ran.err)]
                told += [ran.err] if ran.code == ExitCode.INTERNAL else []
                bad += [f"{' '.join(path)} {parameter.name}={value[:9]}: {each}" for each in told]
    assert not bad, "\n".join(bad)
    assert asked > 150, "the tree of commands has hardly any option"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["listings", "search", "--max-rent", "cheap"], "Invalid value for '--max-rent': must be a whole number."),
        (["listings", "show", "0"], "  LISTING: must be at least 1\n"),
        (["search", ""], "  WORDS: must not be empty\n"),
        (["markets", "set", "boston", "--max-listings", "0"], "  --max-listings: must be at least 1\n"),
        (["markets", "show", ""], "A name is empty. Give one.\n"),
        (["lanes", "set", "example.com", "--new", "--tokens", "-1"], "  --tokens: must be greater than 0\n"),
        (["lanes", "set", "example.com", "--unset", "speed"], "unknown rule 'speed'; choose from tokens_per_interval"),
        (["sinks", "add", "x", "--type", "webhook"], "forager: --option url: is required.\n"),
        (["crawl", "shop"], "  URL: the URL should begin with https:// or http://\n"),
        (["crawl", "https://shop.example/", "--recrawl", "soon"], "write 90s, 30m, 6h or 1d"),
        (["crawl", "https://shop.example/", "--recrawl", "6"], "--recrawl: '6' has no unit; write 90s, 30m, 6h or 1d."),
        (["archive", "--kind", "product", "--inactive-for", "90000"], "--inactive-for: '90000' has no unit; write"),
        (["export", "place", "-f", "xml"], "'--format' / '-f': 'xml' is not one of 'jsonl', 'csv', 'parquet'"),
        (["jobs", "list", "--limit", "0"], "Invalid value for '--limit' / '-n': must be at least 1."),
        (["scrape", "https://example.com/", "--extractor", "no.py"], "--extractor: there is no file no.py."),
        (["places", "plan", "-k", "bars"], "  give --state (such as AZ), --zip"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_named_by_its_option_with_what_is_right(asking: Forager, arguments: list[str], told: str) -> None:
    ran = asking(*arguments)

    assert ran.code == ExitCode.USAGE
    assert told in ran.err


def _wrong(parameter: Any) -> tuple[str, ...]:
    """Values that the parser or the API refuses: no number, a negative one, or far too long a text."""
    if parameter.name in ("help", "as_json") or getattr(parameter, "is_flag", False):
        return ()
    return ("cheap", "-5") if parameter.type_descriptor.annotation in (int, float) else ("x" * 5_000,)


def _commands(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    whole = command.loaded() if isinstance(command, FeatureCommand) else command
    if path and path[0] in OWN_PROCESS:
        return
    if below := getattr(whole, "commands", None):
        for name, each in below.items():
            yield from _commands(each, [*path, name])
    else:
        yield path, whole


def _line(path: list[str], command: Any, wrong: Any, value: str) -> list[str]:
    """A command line that is right but for one value."""
    options, arguments = [], []
    for each in command.params:
        given = value if each is wrong else GOOD.get(each.name, "x")
        if each is not wrong and not each.required:
            continue
        if each.param_type_name == "argument":
            arguments.append(given)
        else:
            options.append(f"{each.opts[0]}={given}")
    return [*path, *options, *ALSO.get(" ".join(path), ()), "--", *arguments]
