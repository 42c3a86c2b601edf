"""Mutants: which defects are made, where none is made, and that a defect works in a function that is loaded."""

from pathlib import Path
from types import FunctionType

import pytest

from scripts import mutate
from scripts.mutants import Mutant, mutants, mutated
from scripts.mutate import AREAS, draw, files_of, named, with_section

SOURCE = '''
import structlog

log = structlog.get_logger()


def choose(values: list[int], most: int = 3) -> int | None:
    """Docstring with 1 number."""
    if not values and most <= 3:
        log.warning("nothing to choose from", number=1)
        raise ValueError("values: give 2 or more")
    values.sort()
    return values[0] + 250


class Box:
    def full(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "Box" * 2
'''


def whats(function: str) -> list[str]:
    return [each.what for each in mutants("box.py", SOURCE) if each.function == function]


def test_each_operator_constant_call_and_return_is_a_defect_once() -> None:
    assert whats("choose") == [
        "condition negated",
        "and → or",
        "not removed",
        "<= → <",
        "3 → 4",
        "`values.sort()` left out",
        "returns None",
        "+ → -",
        "0 → 1",
        "250 → 1",
    ]
    assert whats("Box.full") == ["True → False"]


def test_texts_for_people_log_lines_errors_and_annotations_are_left_as_they_are() -> None:
    assert whats("Box.__repr__") == []
    lines = {each.line for each in mutants("box.py", SOURCE)}
    for words in ("Docstring", "log.warning", "raise ValueError", "most: int"):
        number = next(n for n, line in enumerate(SOURCE.splitlines(), 1) if words in line)
        assert number not in lines, words


@pytest.mark.parametrize("mutant", mutants("box.py", SOURCE), ids=str)
def test_every_mutant_has_code_that_differs_from_the_function(mutant: Mutant) -> None:
    whole: dict[str, object] = {}
    exec(compile(SOURCE, "box.py", "exec"), whole)
    owner, _, name = mutant.function.rpartition(".")
    function = getattr(whole[owner], name) if owner else whole[name]
    assert isinstance(function, FunctionType)
    code = mutated(mutant, SOURCE, "box.py")
    assert code.co_qualname == mutant.function
    assert (code.co_code, code.co_consts) != (function.__code__.co_code, function.__code__.co_consts)


def test_a_defect_is_put_into_a_function_that_others_have_imported_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "def is_small(number):\n    return number < 10\n"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "small.py").write_text(source)
    loaded: dict[str, FunctionType] = {}
    exec(compile(source, str(tmp_path / "src" / "small.py"), "exec"), loaded)
    is_small = loaded["is_small"]
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    monkeypatch.setattr(mutate, "SOURCE", "src")
    wanted = next(each for each in mutants("small.py", source) if each.what == "< → <=")
    assert is_small(10) is False
    assert mutate.put_in_place(wanted)
    assert is_small(10) is True


@pytest.mark.parametrize("name", AREAS)
def test_an_area_has_files_and_a_sample_of_it_is_the_same_for_the_same_seed(name: str) -> None:
    assert files_of(AREAS[name])
    some = draw(AREAS[name], 20, 7)
    assert len(some) == 20
    assert some == draw(AREAS[name], 20, 7)
    assert some != draw(AREAS[name], 20, 8)


def test_the_pure_files_of_pipelines_are_an_area_without_their_edges() -> None:
    names = {path.name for path in files_of(AREAS["pipelines"])}
    assert "records.py" in names
    assert not names & {"feature.py", "wiring.py", "api.py", "cli.py", "app_steps.py", "settings.py"}


def test_a_section_of_the_page_is_replaced_and_the_others_stay() -> None:
    page = "# Mutation\n\nWords.\n\n## core: nouns\n\nold\n\n## ledger: store\n\nkept\n"
    once = with_section(page, "core", "## core: nouns\n\nnew\n")
    assert "old" not in once
    assert "new" in once
    assert once.endswith("## ledger: store\n\nkept\n")
    assert with_section(once, "engine", "## engine: loops\n\nfirst\n").endswith("## engine: loops\n\nfirst\n")


def test_a_survivor_is_explained_by_a_name_without_the_number_of_its_line() -> None:
    one, other = (Mutant("a.py", "f", 1, line, "< → <=", 0) for line in (3, 30))
    assert named(one) == named(other) == "a.py f: < → <="
