"""Every command line on a page is accepted by the program. Nothing is executed: lines are only parsed."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from forager.cli.root import app

ROOT = Path(__file__).parents[2]
WRITTEN_BY_HAND = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.name != "cli.md"),
]
LINE = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?forager (?P<words>.+)$")
MENTION = re.compile(r"`(?:\.venv/bin/)?forager (?P<words>[^`]+)`")


def lines(page: str) -> Iterator[str]:
    """Whole command lines, in blocks; a comment may end them."""
    for block in page.split("```")[1::2]:
        for line in block.splitlines():
            for part in line.split("# or: "):
                if said := LINE.match(part.strip()):
                    yield said["words"]


def mentions(page: str) -> Iterator[str]:
    """Commands named in the text, whose arguments may be left out."""
    for text in page.split("```")[0::2]:
        yield from (said["words"].replace("…", "") for said in MENTION.finditer(text))


def complaint(words: str) -> str | None:
    """Return the parser's error for a line, or None."""
    command: Any = get_command(app)
    words = re.sub(r"<(job|task)>", "00000000-0000-4000-8000-000000000000", words)
    rest, context, name = shlex.split(words, comments=True), None, "forager"
    try:
        while True:
            context = command.make_context(name, rest, parent=context)
            command = context.command
            if not hasattr(command, "commands"):
                return None
            rest = [*context._protected_args, *context.args]
            name, command, rest = command.resolve_command(context, rest)
    except Exception as error:
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"


FOUND = [(page, words) for page in WRITTEN_BY_HAND for words in lines(page.read_text("utf-8"))]
NAMED = [(page, words) for page in WRITTEN_BY_HAND for words in mentions(page.read_text("utf-8"))]
CURLS = [
    (page, line.strip())
    for page in WRITTEN_BY_HAND
    for block in page.read_text("utf-8").replace("\\\n", " ").split("```")[1::2]
    for line in block.splitlines()
    if line.startswith("curl ") and "/api/v1/" in line
]


def test_the_pages_have_command_lines_at_all() -> None:
    assert len(FOUND) >= 15
    assert len(NAMED) >= 10
    assert len(CURLS) >= 5


@pytest.mark.parametrize(("page", "words"), FOUND, ids=[f"{page.name}: {words[:40]}" for page, words in FOUND])
def test_a_command_line_on_a_page_parses(page: Path, words: str) -> None:
    assert complaint(words) is None, f"{page.name}: forager {words}"


@pytest.mark.parametrize(("page", "words"), NAMED, ids=[f"{page.name}: {words[:40]}" for page, words in NAMED])
def test_a_command_that_the_text_names_is_there(page: Path, words: str) -> None:
    said = complaint(words) or ""
    assert not said or said.startswith(("MissingParameter", "NoArgsIsHelp")), f"{page.name}: forager {words}: {said}"


@pytest.mark.parametrize(("page", "line"), CURLS, ids=[f"{page.name}: {line[-40:]}" for page, line in CURLS])
def test_a_request_on_a_page_sends_the_key_in_our_header_to_our_port(page: Path, line: str) -> None:
    assert '-H "X-Service-Key: $' in line, f"{page.name}: {line}"
    assert "http://127.0.0.1:8001/api/v1/" in line, f"{page.name}: {line}"


@pytest.mark.parametrize(
    "wrong",
    ["jobs listen", "schedules add x --cron '* * * * *' --keyword bars", "places plan -s AZ", "export place -f xml"],
)
def test_a_line_that_the_program_would_refuse_is_found(wrong: str) -> None:
    assert complaint(wrong) is not None
