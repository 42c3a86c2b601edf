"""The pages about the code name every package, runner and import rule, and only files that exist."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forager"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
CHANGES = (ROOT / "docs" / "contributing" / "where-do-i-change.md").read_text("utf-8")


def test_every_package_has_its_paragraph() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    paragraphs = set(re.findall(r"\*\*`(\w+)/`\*\*", PAGE))
    assert paragraphs == packages


def test_every_runner_is_named() -> None:
    runners = {path.stem for path in (SOURCE / "runners").iterdir() if not path.name.startswith("_")}
    named = set(re.findall(r"`runners/(\w+)", PAGE))
    assert runners <= named


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE)
    assert len(named) > 20
    walked = re.findall(r"^    ([a-z_]+/[a-z_/]+\.py)  ", PAGE, re.MULTILINE)
    assert len(walked) > 20
    missing = [path for path in (*named, *walked) if not (SOURCE / path).exists() and not (ROOT / path).exists()]
    assert not missing


def test_the_table_of_import_rules_is_that_of_the_linter() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (rules,) = (contract["rules"] for contract in contracts if contract["type"] == "rooms")
    declared = {}
    for rule in rules:
        package, _, names = rule.partition("->")
        allowed = {name.strip().removeprefix("forager.") for name in names.split(",") if name.strip()}
        declared[package.strip().removeprefix("forager.")] = allowed or {"nothing"}
    table = PAGE.partition("| package | may import | protects |")[2].partition("\n\n")[0]
    shown = {}
    for package, names in re.findall(r"^\| `([\w.*]+)` \| ([^|]+) \|", table, re.MULTILINE):
        shown[package] = {"*"} if names == "everything" else {name.strip(" `") for name in names.split(",")}
    assert shown == declared


def test_there_are_twelve_changes_and_each_names_a_test_to_run() -> None:
    changes = CHANGES.split("\n## ")[1:]
    assert len(changes) == 12
    for change in changes:
        assert re.search(r"pytest -q [^`\n]*tests/", change), change.partition("\n")[0]


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:src|tests|docs|ops|scripts|bench)/[\w./*-]+", CHANGES))))
def test_every_path_on_the_page_about_changes_exists(path: str) -> None:
    assert list(ROOT.glob(path.rstrip("./"))), path


def test_every_name_in_the_code_that_the_page_about_changes_quotes_is_in_its_file() -> None:
    quoted = re.findall(r"`([\w.]+)`(?: \([^)]*\))? (?:of|in) `((?:src|tests)/[\w/]+\.(?:py|yaml))`", CHANGES)
    assert len(quoted) > 10
    missing = [(name, path) for name, path in quoted if name.rpartition(".")[2] not in (ROOT / path).read_text("utf-8")]
    assert not missing
