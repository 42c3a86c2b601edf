"""`forager(*arguments)`: a command in an empty folder, without the settings of whoever runs the tests."""

import io
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from forager.app.config import new_settings
from forager.cli.main import run
from forager.cli.root import app
from tests.support.cli import Forager, Ran
from tests.support.schema_templates import prepare_store


@pytest.fixture
def forager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Forager:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("FORAGER_", "SERPER_", "SCRAPER_", "APIFY_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys.modules[run.__module__], "app", _built_commands())

    def call(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capfd.readouterr()
        code = run(arguments)
        said = capfd.readouterr()
        return Ran(code, said.out, said.err)

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty store in the folder of `forager`: most commands create none."""
    settings = new_settings(home=tmp_path / ".forager")
    settings.home.mkdir(mode=0o700)
    prepare_store(settings)
    return settings.home


@cache
def _built_commands() -> Any:
    """Build the tree of commands once for all tests of this process: that took a quarter of the time of a command."""
    return typer.main.get_command(app)
