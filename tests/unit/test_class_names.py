"""One word, one meaning: a public class of `src/forager` has a name of its own."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "forager"
SHARED: dict[str, str] = {}
"""Names that several classes have, each with the reason why they mean the same."""
GENERATED = ("client/types.py",)
"""Modules made from the OpenAPI document: their classes are the API's own shapes, under the API's own names."""


def class_names(source: Path) -> dict[str, set[str]]:
    """Return the public classes at the top of each module: by name, the modules that define one."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in source.rglob("*.py"):
        if str(path.relative_to(source)) in GENERATED:
            continue
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(source)))
    return found


def shared_names(source: Path) -> dict[str, list[str]]:
    """Return the names that several modules use, with these modules."""
    return {name: sorted(modules) for name, modules in class_names(source).items() if len(modules) > 1}


def test_no_two_public_classes_have_one_name_without_a_reason() -> None:
    unexplained = {name: modules for name, modules in shared_names(SOURCE).items() if name not in SHARED}

    assert unexplained == {}, "choose names that need no folder to be understood, or add a reason to SHARED"


def test_every_exception_is_still_needed() -> None:
    assert SHARED.keys() <= shared_names(SOURCE).keys()


@pytest.mark.parametrize(("name", "found"), [("Page", True), ("_Page", False), ("Other", False)])
def test_a_second_public_class_of_one_name_is_found(tmp_path: Path, name: str, found: bool) -> None:
    (tmp_path / "list.py").write_text("class Page: ...\nclass _Page: ...\n")
    (tmp_path / "crawl.py").write_text(f"class {name}: ...\n")

    assert shared_names(tmp_path) == ({"Page": ["crawl.py", "list.py"]} if found else {})
