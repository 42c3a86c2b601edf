"""Write docs/contributing/requirements.md: the tests of each requirement, taken from the names of the tests.

The name of a test ends with the ids of its requirements, each behind two underscores:
`test_a_late_commit_is_refused__PL_6__R5` covers PL-6 and R5. The trap that a test guards against comes before them:
`test_a_late_commit_is_never_skipped_trap_1__R6`. Sources are parsed, never imported.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing" / "requirements.md"

FAMILIES = {
    "PL": "Places",
    "PR": "Products",
    "LI": "Listings",
    "SC": "Scrape",
    "RV": "Reviews",
    "R": "Reliability",
    "S": "Security",
}
TRAPS = {
    1: "a reader of the change log misses a late commit",
    2: "a lane sleeps on work that a submission was just writing",
    3: "a plan made for an empty queue collapses over a full one",
    4: "a token bucket lets almost twice the rate into one second",
    5: "a follower of a failed task waits forever",
    6: "a budget is passed because the price is known too late",
    7: "a heartbeat for every lane or task; a late worker that goes on sending",
    8: "a big job or a big outcome holds up all others",
    9: "fuzzy matching inside a settlement holds up all others",
    10: "two transactions lock in different orders",
    11: "a migration fails on a table that has a view",
    12: "money that is kept as text sorts wrongly",
    13: "a step that overruns its lease commits late in the only process there is",
}
WITHOUT_TEST = {
    9: "Near duplicates are matched by a step, before its settlement (decision 0035): no settlement contains a match."
}
_TRAP = re.compile(r"_trap_(\d+)$")
_ID = re.compile(r"(?:PL|PR|LI|SC|RV)_P?\d+[a-z]?|[RS]\d+[a-z]?")
_HEAD = """\
# Requirements and their tests

For contributors: which tests cover which requirement. Generated from the names of the tests by
`make requirements`; a test fails when this page is out of date.
"""


class UnknownRequirement(Exception):
    """A test's name ends with a suffix that is not the id of a requirement."""


def requirement_ids(test_name: str) -> list[str]:
    """Return the ids at the end of a test's name: `…__PL_6__R5` → PL-6, R5."""
    return [_requirement_id(suffix, test_name) for suffix in test_name.split("__")[1:]]


def collect(tests: Path) -> dict[str, list[str]]:
    """Return the tests of every requirement, as `path::name` relative to the parent of `tests`."""
    shown: dict[str, list[str]] = defaultdict(list)
    for path in sorted(tests.rglob("test_*.py")):
        for name in _test_names(ast.parse(path.read_text("utf-8"), str(path))):
            for requirement in (*requirement_ids(name), *_traps(name)):
                shown[requirement].append(f"{path.relative_to(tests.parent)}::{name}")
    return shown


def render(shown: Mapping[str, list[str]]) -> str:
    """Return the page: a section per family, its requirements in order of number; then the traps."""
    parts = [_HEAD]
    for family, title in FAMILIES.items():
        rows = sorted((key for key in shown if _family(key) == family), key=_order)
        if rows:
            parts.append(f"\n## {title}\n")
            parts.extend(f"\n**{key}**\n\n" + "".join(f"- `{test}`\n" for test in shown[key]) for key in rows)
    if any(_trap(number) in shown for number in TRAPS):
        parts.append("\n## Traps of the ledger\n")
        parts.extend(_trap_section(number, shown.get(_trap(number), [])) for number in TRAPS)
    return "".join(parts)


def main() -> None:
    PAGE.write_text(render(collect(ROOT / "tests")), "utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")


def _traps(test_name: str) -> list[str]:
    found = _TRAP.search(test_name.split("__")[0])
    if found is None:
        return []
    if int(found[1]) not in TRAPS:
        raise UnknownRequirement(f"{test_name}: there is no trap {found[1]}; see TRAPS.")
    return [_trap(int(found[1]))]


def _trap(number: int) -> str:
    return f"trap {number}"


def _trap_section(number: int, tests: list[str]) -> str:
    lines = [f"- `{test}`\n" for test in tests] or [f"{WITHOUT_TEST.get(number, 'No test guards against it.')}\n"]
    return f"\n**{number}** {TRAPS[number]}\n\n" + "".join(lines)


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
    """Return the sort key: SC-9 comes before SC-10, and both before SC-P1."""
    found = re.fullmatch(r"(\D+)(\d+)(\D*)", requirement)
    return (found[1], int(found[2]), found[3]) if found else (requirement, 0, "")


if __name__ == "__main__":
    main()
