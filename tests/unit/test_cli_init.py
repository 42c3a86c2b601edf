"""`forager init` writes a file of comments that Forager itself can read, and never over another."""

import re
import tomllib
from pathlib import Path

from forager.app.config import declared_settings, load_settings
from tests.support.cli import Forager


def test_init_writes_a_commented_file_with_every_common_setting(forager: Forager, tmp_path: Path) -> None:
    ran = forager("init")

    assert ran.code == 0, ran.err
    text = (tmp_path / "forager.toml").read_text()
    assert tomllib.loads(text) == {}, "nothing is set by itself"
    for each in declared_settings():
        assert (f"\n#{each.name.field} = " in text) is each.is_common, each.name.field
    assert not (tmp_path / ".forager").exists()


def test_every_line_of_the_file_is_valid_once_its_comment_is_removed(forager: Forager, tmp_path: Path) -> None:
    assert forager("init").code == 0
    path = tmp_path / "forager.toml"
    path.write_text(re.sub(r"(?m)^#(\w+ = )", r"\1", path.read_text()))

    loaded = load_settings(env={}, cwd=tmp_path)

    assert loaded.home == tmp_path / ".forager"


def test_init_never_writes_over_a_file_that_is_there(forager: Forager, tmp_path: Path) -> None:
    (tmp_path / "forager.toml").write_text("serper_rate = 5\n")

    ran = forager("init")

    assert ran.code == 5
    assert "exists already" in ran.err
    assert (tmp_path / "forager.toml").read_text() == "serper_rate = 5\n"
