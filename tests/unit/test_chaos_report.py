"""The table of fault tests: what is counted, which rows stay, and why a test did not run."""

import subprocess
import sys
from pathlib import Path

from scripts.chaos import CHECKS, Row, checks_of, kept, line, page

SUITE = """
import pytest

@pytest.mark.chaos
def test_many_kills__R2_R3(): pass
def test_one_kill_on_postgres__PL_6__R2(): pass
def test_broken__R2(): assert False
@pytest.mark.skip(reason="no broker here")
def test_later__R9(): pass
@pytest.mark.chaos
def test_without_a_check(): pass
def test_other__PL_6(): pass
"""
PROGRAM = """
import sys, pytest
from scripts.chaos import Collector, line
rows = Collector(sys.argv[2:])
pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", sys.argv[1], "--confcutdir", sys.argv[1], sys.argv[1]],
            plugins=[rows])
for check, row in rows.rows.items():
    row.seconds = 0
    if row.passed or row.failed or row.skipped:
        print("ROW", line(check, row, "2026-03-14"))
"""


def rows_of(tmp_path: Path, *wanted: str) -> tuple[list[str], str]:
    (tmp_path / "test_it.py").write_text(SUITE.replace("R2_R3", "R2__R3"))
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), *wanted]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [each.removeprefix("ROW ") for each in printed.splitlines() if each.startswith("ROW ")], printed


def test_rows_count_the_tests_of_a_check_by_size_and_store(tmp_path: Path) -> None:
    rows, printed = rows_of(tmp_path)
    assert rows == [
        (
            f"| R2 | {CHECKS['R2']} | SQLite, PostgreSQL | 2 passed, 1 of them of full size; failed:"
            " `test_it.py::test_broken__R2` |  | 2026-03-14 |"
        ),
        f"| R3 | {CHECKS['R3']} | SQLite | 1 passed, 1 of them of full size |  | 2026-03-14 |",
        (
            f"| R9 | {CHECKS['R9']} |  | 0 passed, 0 of them of full size; not run: test_it.py::test_later__R9: no"
            " broker here |  | 2026-03-14 |"
        ),
    ]
    assert "1 failed, 3 passed, 1 skipped, 1 deselected" in printed, "one of full size has no check, and runs"


def test_one_check_runs_alone(tmp_path: Path) -> None:
    rows, printed = rows_of(tmp_path, "R3")
    assert [row[:5] for row in rows] == ["| R3 "]
    assert "1 passed, 5 deselected" in printed


def test_a_row_that_did_not_run_now_stays_as_it_was() -> None:
    row = line("R7", Row(passed=4, full=2, seconds=90.0, stores={"SQLite"}), "2026-03-14")
    text = page({"R7": row})
    assert (
        kept(text)["R7"]
        == row
        == f"| R7 | {CHECKS['R7']} | SQLite | 4 passed, 2 of them of full size | 1.5 min | 2026-03-14 |"
    )
    assert kept(text).keys() == CHECKS.keys()
    assert "not run yet" in kept(text)["R8"]
    assert page(kept(text)) == text


def test_a_check_is_an_id_at_the_end_of_a_name() -> None:
    assert checks_of("test_it__PL_6__R2") == {"R2"}
    assert checks_of("test_it__R19__R2[sqlite]") == {"R19", "R2"}
    assert checks_of("test_R2_of_a_name_trap_13") == set()
