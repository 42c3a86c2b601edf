"""Every command, option and exit code is documented, and the page agrees with the program."""

from typing import Any

import pytest
from typer.main import get_command

from forager.cli.main import run
from forager.cli.root import app
from forager.sdk.cli.invocation import ExitCode
from scripts import cli_doc

COMMANDS = list(cli_doc.commands(get_command(app)))


def test_the_page_of_commands_is_up_to_date() -> None:
    up_to_date = cli_doc.PAGE.read_text("utf-8") == cli_doc.render()

    assert up_to_date, "docs/cli.md is stale: run `python -m scripts.cli_doc`"


def test_the_issue_s_commands_are_all_there() -> None:
    wanted = {
        *("demo", "up", "worker", "sandbox", "export", "doctor", "prune", "places plan", "places run"),
        *("scrape page", "scrape batch"),
        *(f"jobs {verb}" for verb in ("list", "show", "tasks", "logs", "watch", "pause", "resume", "cancel", "retry")),
        "jobs rejected",
        *(f"dead {verb}" for verb in ("list", "show", "retry", "discard")),
        *(f"schedules {verb}" for verb in ("list", "add", "remove", "pause", "resume", "run")),
        *(f"proxies {verb}" for verb in ("add", "list", "check", "set", "remove")),
        *(f"sinks {verb}" for verb in ("list", "show", "pause", "resume", "replay")),
        *(f"sinks {verb}" for verb in ("refused", "retry", "discard", "remove")),
        *(f"lanes {verb}" for verb in ("list", "show", "pause", "resume", "set")),
        *(f"db {verb}" for verb in ("upgrade", "downgrade", "current", "rotate-key", "compact")),
    }

    assert wanted <= {path for path, _ in COMMANDS}


def test_help_of_scrape_shows_the_options_of_its_short_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("scrape", "--help")) == 0
    shown = capsys.readouterr().out
    for each in cli_doc.parameters(dict(COMMANDS)["scrape page"]):
        assert max(each.opts, key=len) in shown or each.metavar in shown, each.name
    assert "batch" in shown


def test_the_short_form_of_scrape_is_explained_where_it_is_looked_for() -> None:
    assert "`forager scrape URL` is the same" in dict(COMMANDS)["scrape page"].help


def test_the_help_of_every_command_ends_with_an_example() -> None:
    """Its last paragraph, such as `Example: forager jobs list`. tests/acceptance/test_help_examples.py runs them."""
    same = {"crawl": "products run", "search for": "products search", "markets scrape": "listings run"}
    same |= {"scrape page": "scrape", "scrape batch": "scrape run"}
    examples = {path: str(cli_doc.example(command)) for path, command in COMMANDS}

    wrong = [path for path, text in examples.items() if not text.startswith(f"forager {same.get(path, path)}")]
    assert wrong == []


def test_every_limit_has_the_same_short_option() -> None:
    limits = {path: option.opts for path, command in COMMANDS for option in command.params if option.name == "limit"}
    assert len(limits) > 20
    assert {path: opts for path, opts in limits.items() if "-n" not in opts} == {}


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
def test_every_command_and_option_has_a_sentence_and_json(path: str, command: Any) -> None:
    mute = [each.name for each in cli_doc.parameters(command) if not each.help]

    assert command.help, path
    assert mute == []
    assert "as_json" in [each.name for each in command.params]


@pytest.mark.parametrize("words", [("--help",), ("places", "run", "--help"), ("scrape", "--help")], ids=" ".join)
def test_help_shows_no_type_beside_a_switch_and_wraps_paragraphs(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run(words)

    shown = capsys.readouterr().out
    assert "<bool>" not in shown
    assert "list[" not in shown
    sentence = "Otherwise this command does, and ends with the job; Ctrl-C"
    assert words[:2] != ("places", "run") or sentence in " ".join(shown.split())


def test_every_exit_code_is_on_the_page_with_its_meaning() -> None:
    page = cli_doc.PAGE.read_text("utf-8")

    assert [code for code in ExitCode if f"| {int(code)} | {code.about} |" not in page] == []
