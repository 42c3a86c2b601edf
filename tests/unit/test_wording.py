"""Phrases that users stumbled over do not come back, in the program, its help or its guides (issue 14)."""

from pathlib import Path

import pytest

from forager.sdk.cli import render

ROOT = Path(__file__).parents[2]
FORBIDDEN = (
    "it is no URL of a page",
    "are no hours",
    "could not be had",
    "new to the world",
    "who says so",
    "Nobody works here",
    "running suspects",
    "what is in flight may end",
    "can be gone on with",
    "Another seed is another world",
    "keeps it true",
    "Most pages",
    "Told when it has ended",
    "It waits for its lane",
)


def test_no_phrase_that_was_hard_to_understand_is_back() -> None:
    texts = [*(ROOT / "src" / "forager").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    found = [(path.name, phrase) for path in texts for phrase in FORBIDDEN if phrase in path.read_text("utf-8")]

    assert len(texts) > 500
    assert not found


@pytest.mark.parametrize(
    ("usd", "shown"), [(0, "$0.00"), (0.0003, "$0.0003"), (0.0421, "$0.042"), (0.179, "$0.179"), (1234.5, "$1,234.50")]
)
def test_money_has_enough_digits(usd: float, shown: str) -> None:
    assert render.money(usd) == shown


def test_a_next_command_stays_on_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    command = "forager --home .forager/demo export product --format csv --output products.csv"

    render.show_next([("products as CSV", command)])

    assert f"  {command}" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["runtime", "dev"])
def test_the_set_up_ends_with_how_to_run_it(kind: str) -> None:
    (line,) = [
        line for line in (ROOT / "scripts" / "setup").read_text().splitlines() if line.strip().startswith(f"{kind})")
    ]

    assert line.rstrip().endswith("say_how ;;")
