"""The script that runs the suite: what fails once, by accident, is run again, and is named loudly."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.run_tests import MOST, deserves_second_run
from tests.conftest import TIMEOUT_AGAIN
from tests.support.scheduling import LONG

ROOT = Path(__file__).parents[2]
TESTS = """
from pathlib import Path

def test_that_passes(): pass

def test_that_fails_once():
    seen = Path("seen")
    first = not seen.exists()
    seen.touch()
    assert not first, "the reason of the first failure"

def test_that_fails_always(): assert ALWAYS
"""


@pytest.mark.parametrize(
    ("code", "failures", "expected"),
    [(1, 1, True), (1, MOST, True), (1, MOST + 1, False), (1, 0, False), (0, 0, False), (2, 1, False), (3, 1, False)],
)
def test_only_a_few_failures_of_a_complete_run_get_a_second_one(code: int, failures: int, expected: bool) -> None:
    assert deserves_second_run(code, [f"test_{number}" for number in range(failures)]) is expected


@pytest.mark.parametrize("option", ["-x", "--exitfirst", "--maxfail=2"])
def test_a_run_that_ended_at_a_failure_gets_no_second_one(option: str) -> None:
    assert not deserves_second_run(1, ["test_it"], ["-n", "0", option])


@pytest.mark.parametrize("passes_always", [True, False])
def test_a_failure_that_does_not_repeat_is_named_and_one_that_repeats_fails(
    tmp_path: Path, passes_always: bool
) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(TESTS.replace("ALWAYS", str(passes_always)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    run = subprocess.run(
        [sys.executable, "-m", "scripts.run_tests", "-p", "xdist.plugin", "-n", "0"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    first, _, second = run.stdout.partition("now run once more")
    assert "the reason of the first failure" in first
    assert "passed in the second; each of them needs a repair:\n    test_it.py::test_that_fails_once\n" in second
    assert run.returncode == (0 if passes_always else 1), run.stdout + run.stderr
    assert ("FAILED twice:\n    test_it.py::test_that_fails_always\n" in second) is not passes_always
    assert "1 passed" in second, "what passed in the first run is not run again"


def test_the_timeout_of_a_test_fires_until_it_has_ended() -> None:
    """An event loop swallows what hits one of its tasks: without a second signal, such a test would never end."""
    left, again = signal.getitimer(signal.ITIMER_REAL)
    assert (left > 0, again) == (True, TIMEOUT_AGAIN)


def test_every_file_that_is_scheduled_first_exists() -> None:
    assert [name for name in LONG if not (ROOT / name).is_file()] == []
