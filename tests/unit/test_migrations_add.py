"""Migrations only add, so that workers of the version before go on while the schema is upgraded."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "forager"
MIGRATIONS = sorted([*SOURCES.glob("ledger/migrations/versions/*.py"), *SOURCES.glob("pipelines/*/migrations/*.py")])
REMOVES = {"drop_column", "drop_table", "rename_table", "alter_column"}
BEFORE_THE_RULE = {"0016_domain_ids", "0003_changed_at", "0005_late_columns"}
"""These rewrote tables before any release. Add none: remove a column in the release after the one that stops using it,
and give a new column a default of the database's own, because old workers do not write it."""


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_an_upgrade_removes_nothing_and_its_new_columns_have_defaults(path: Path) -> None:
    if path.stem in BEFORE_THE_RULE:
        return
    functions = {each.name: each for each in ast.parse(path.read_text()).body if isinstance(each, ast.FunctionDef)}
    called = list(_calls("upgrade", functions, set()))
    assert {_name(call) for call in called} & REMOVES == set()
    for call in called:
        if _name(call) == "add_column":
            assert not _is_required(call), ast.unparse(call)


def test_the_rule_finds_what_it_is_there_for() -> None:
    broken = (
        "def upgrade():\n    inner()\n"
        "def inner():\n    op.drop_table('x')\n    op.add_column('t', Column('c', Text, nullable=False))"
    )
    functions = {each.name: each for each in ast.parse(broken).body if isinstance(each, ast.FunctionDef)}
    drop, add = [call for call in _calls("upgrade", functions, set()) if _name(call) in (*REMOVES, "add_column")]
    assert (_name(drop), _is_required(add)) == ("drop_table", True)


def _calls(name: str, functions: dict[str, ast.FunctionDef], seen: set[str]) -> Iterator[ast.Call]:
    """Yield the calls in a function and in those of its module that it calls."""
    if name in seen or name not in functions:
        return
    seen.add(name)
    for node in ast.walk(functions[name]):
        if isinstance(node, ast.Call):
            yield node
            yield from _calls(_name(node), functions, seen)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_required(call: ast.Call) -> bool:
    """Return whether it adds a required column without a default."""
    columns = [node for node in ast.walk(call) if isinstance(node, ast.Call) and _name(node) == "Column"]
    given = [{word.arg: ast.unparse(word.value) for word in column.keywords} for column in columns]
    return any(words.get("nullable") == "False" and "server_default" not in words for words in given)
