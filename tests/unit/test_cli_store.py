"""Commands that create a store, answers of the others without a store, and the permissions of its files."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from forager.cli.main import Application
from forager.cli.root import app
from forager.core.errors import NotFound
from forager.sdk.cli.invocation import Invocation, with_api
from scripts import cli_doc
from tests.support.cli import Forager
from tests.support.forked_command import start_command

COMMANDS = dict(cli_doc.commands(get_command(app)))
CREATING = frozenset(
    {
        *("up", "worker", "places run", "crawl", "scrape page", "scrape batch", "restore", "db upgrade"),
        *("reviews run", "reviews login", "products run", "listings run", "scrape run", "web"),
        *(
            "mcp",
            "keys add",
            "channels add",
            "rules add",
            "watch add",
            "schemas add",
            "schemas learn",
            "schemas test",
            "site crawl",
            "site map",
        ),
        *("schedules add", "proxies add", "sinks add", "lanes set", "lanes pause", "lanes resume"),
        *(f"markets {verb}" for verb in ("add", "set", "disable", "remove", "scrape", "start")),
    }
)
"""Commands that start something or store a setting."""
WITHOUT = frozenset(
    {
        "demo",
        "init",
        "sandbox",
        "doctor",
        "places plan",
        "products plan",
        "listings plan",
        "scrape plan",
        "reviews plan",
        "replay",
        "sinks types",
        "db current",
    }
)
"""Commands whose answer needs no store."""
VALUES = {
    "JOB": "ffffffff",
    "TASK": "1-1",
    "ID": "1",
    "REVISION": "base",
    "KIND": "place",
    "LISTING": "1",
    "PRODUCT": "1",
    "SOURCE": "apartments:1",
}
OPTIONS = {
    "archive": ["--inactive-for", "180d"],
    "dead retry": ["--all"],
    "db downgrade": ["--yes"],
    "products domains set": ["--currency", "USD"],
    "proxies set": ["--region", "us"],
    "reparse": ["--domain", "shop.example"],
    "sinks discard": ["--all"],
    "pages export": ["pages"],
    "channels add": ["--url", "ntfy://topic"],
    "watch add": ["https://shop.example/"],
    "site export": ["--folder", "pages"],
}
"""Arguments that a command needs in addition to its required parameters."""
NEEDS_NO_FOLDER = frozenset({"blobs adopt"})
"""Commands that refuse the embedded store as such."""


def words_of(path: str, command: Any, tmp_path: Path) -> list[str]:
    """A valid call of a command: its words, and a value for each parameter that it requires."""
    words = path.split()
    for each in command.params:
        if not each.required:
            continue
        value = VALUES.get(str(each.metavar), "any")
        if each.name == "token_file":
            value = str(tmp_path / "token")
            Path(value).write_text("token")
        words += [value] if each.param_type_name == "argument" else [max(each.opts, key=len), value]
    return words + OPTIONS.get(path, [])


def test_the_lists_of_this_file_name_commands_that_exist() -> None:
    assert {*CREATING, *WITHOUT, *OPTIONS, *NEEDS_NO_FOLDER} <= COMMANDS.keys()


@pytest.mark.parametrize("path", sorted(COMMANDS.keys() - CREATING - WITHOUT))
def test_a_command_that_creates_nothing_names_the_folder_where_it_looked(
    forager: Forager, tmp_path: Path, path: str
) -> None:
    """A new command belongs in one of the lists above if it creates a store, or needs none."""
    ran = forager(*words_of(path, COMMANDS[path], tmp_path))

    assert ran.code != 0, ran.all
    assert not (tmp_path / ".forager").exists()
    if path not in NEEDS_NO_FOLDER:
        assert ran.code == 4, ran.all
        assert f"There is no Forager store in {tmp_path / '.forager'}." in ran.err
        assert "--home" in ran.err
        assert "FORAGER_HOME" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["places", "plan", "-k", "bars", "-s", "RI"],
        ["crawl", "https://shop.example/p/1", "--plan"],
        ["sinks", "types"],
        ["db", "current"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_an_answer_that_needs_no_store_leaves_none_behind(forager: Forager, tmp_path: Path, words: list[str]) -> None:
    ran = forager(*words)

    assert ran.code == 0 or words == ["doctor"], ran.all
    assert not (tmp_path / ".forager").exists()


@pytest.mark.parametrize("name", ["list", "show", "run", "add", "up", "crawl"])
def test_a_new_command_creates_a_store_only_if_it_declares_so(tmp_path: Path, name: str) -> None:
    """The name of a command decides nothing: one that declares nothing about the store reads an existing one."""
    new = typer.Typer()

    @new.callback()
    def group() -> None: ...

    @new.command(name)
    def read(context: typer.Context) -> None:
        with_api(context, lambda at: at.api.get("/jobs"))

    @new.command("write")
    def write(context: typer.Context) -> None:
        with_api(context, lambda at: at.api.get("/jobs"), store="created")

    def call(word: str) -> None:
        given = Invocation(Application(), (word,), home=tmp_path / "home")
        get_command(new)(args=[word], standalone_mode=False, obj=given)

    with pytest.raises(NotFound, match="There is no Forager store in"):
        call(name)
    assert not (tmp_path / "home").exists()
    call("write")
    assert (tmp_path / "home" / "ledger.db").exists()
    call(name)


def test_a_store_of_another_folder_is_found_by_home(
    forager: Forager, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = forager("schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget")
    assert added.code == 0, added.all
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert forager("schedules", "list").code == 4
    found = forager("schedules", "list", "--home", str(tmp_path / ".forager"), "--json")
    assert [each["name"] for each in found.data] == ["bars"]


FIRST = [
    ["schedules", "add", "bars", "--every", "6h", "-p", "keyword=bars", "-p", "state=RI", "--no-budget"],
    ["proxies", "add", "http://user:password@192.0.2.1:8080"],
    ["scrape", "page", "http://127.0.0.1:9/"],
    ["lanes", "pause", "serper"],
    ["db", "upgrade"],
    ["demo", "places"],
]


@pytest.mark.parametrize(
    ("first", "umask"), [*((words, 0o000) for words in FIRST), (FIRST[0], 0o077)], ids=lambda part: str(part)[:30]
)
def test_the_data_folder_is_for_its_owner_alone_whatever_the_first_command_and_umask(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, first: list[str], umask: int
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORAGER_", "SERPER_"))}
    output = tmp_path_factory.mktemp("output")
    command = start_command(
        first, environment=kept, folder=tmp_path, out=output / "out", err=output / "err", umask=umask
    )
    command.wait(120)
    home = tmp_path / ".forager"
    assert modes(home, tmp_path) == {}
    assert list(home.rglob("ledger.db"))


def test_a_store_that_others_could_read_is_closed_to_them(forager: Forager, tmp_path: Path) -> None:
    assert forager("db", "upgrade").code == 0
    store = tmp_path / ".forager" / "ledger.db"
    store.chmod(0o644)

    assert forager("jobs", "list").code == 0
    assert stat.S_IMODE(store.stat().st_mode) == 0o600


def modes(home: Path, root: Path) -> dict[str, str]:
    """The folders and files that others may use in some way."""
    open_ = {str(p.relative_to(root)): stat.S_IMODE(p.stat().st_mode) for p in (home, *home.rglob("*"))}
    return {name: f"{mode:o}" for name, mode in open_.items() if mode & 0o077}
