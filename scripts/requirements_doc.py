"""Writes docs/requirements.md: which tests show which requirement, taken from the names of the tests.

A test carries the ids of its requirements at the end of its name, each behind two underscores:
`test_a_late_commit_is_refused__PL_6__R5` shows PL-6 and R5. Sources are parsed, never imported.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"

FAMILIES = {
    "PL": "Places",
    "PR": "Products",
    "LI": "Listings",
    "SC": "Scrape",
    "RV": "Reviews",
    "R": "Reliability",
    "S": "Security",
}
_ID = re.compile(r"(?:PL|PR|LI|SC|RV)_P?\d+[a-z]?|[RS]\d+[a-z]?")
_HEAD = """\
# Requirements and the tests that show them

Made from the names of the tests by `make requirements`; a test fails when this page is out of date.
"""


class UnknownRequirement(Exception):
    """The end of a test's name looks like a requirement's id but is none."""


def requirement_ids(test_name: str) -> list[str]:
    """The ids at the end of a test's name: `…__PL_6__R5` → PL-6, R5."""
    return [_requirement_id(suffix, test_name) for suffix in test_name.split("__")[1:]]


def collect(tests: Path) -> dict[str, list[str]]:
    """For every requirement the tests that carry it, as `path::name` relative to the parent of `tests`."""
    shown: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        for name in _test_names(ast.parse(path.read_text("utf-8"), str(path))):
            for requirement in requirement_ids(name):
                shown[requirement].append(f"{path.relative_to(tests.parent)}::{name}")
    return shown


def render(shown: Mapping[str, list[str]]) -> str:
    """The page: a section per family, its requirements in order of number."""
    parts = [_HEAD]
    for family, title in FAMILIES.items():
        rows = sorted((key for key in shown if _family(key) == family), key=_order)
        if rows:
            parts.append(f"\n## {title}\n")
            parts.extend(f"\n**{key}**\n\n" + "".join(f"- `{test}`\n" for test in shown[key]) for key in rows)
    return "".join(parts)


def main() -> None:
    PAGE.write_text(render(collect(ROOT / "tests")), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def _requirement_id(suffix: str, test_name: str) -> str:
    if _ID.fullmatch(suffix) is None:
        raise UnknownRequirement(
            f"{test_name}: `{suffix}` is not the id of a requirement. Write ids as PL_6, R5, S1 or SC_P12, "
            f"of the families {', '.join(FAMILIES)}, each behind two underscores."
        )
    return suffix.replace("_", "-")


def _test_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def _family(requirement: str) -> str:
    return requirement.split("-")[0].rstrip("0123456789abcdefghijklmnopqrstuvwxyz")


def _order(requirement: str) -> tuple[str, int, str]:
    """SC-9 comes before SC-10, and both before SC-P1."""
    found = re.fullmatch(r"(\D+)(\d+)(\D*)", requirement)
    return (found[1], int(found[2]), found[3]) if found else (requirement, 0, "")


if __name__ == "__main__":
    main()
