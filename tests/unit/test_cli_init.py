"""`forager init` writes a file of comments that Forager itself can read, and never over another."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

from forager.app.checks import EXTRAS
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


def test_settings_of_a_group_stand_together_and_every_installed_extra_is_named(
    forager: Forager, tmp_path: Path
) -> None:
    assert forager("init").code == 0

    text = (tmp_path / "forager.toml").read_text()
    headings = re.findall(r"(?m)^# --- (.+) ---$", text)
    assert len(headings) == len(set(headings)) > 10
    (extras,) = re.findall(r"(?m)^#   extras: (.+)$", text)
    modules = {"browser": "playwright", **{name: module for name, (module, _) in EXTRAS.items()}}
    assert set(extras.split(", ")) == {name for name, module in modules.items() if is_installed(module)}


def is_installed(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


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
