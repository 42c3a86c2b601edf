"""Run pytest; if only few tests fail, run these once more, alone: `python -m scripts.run_tests [pytest options]`.

CI machines are shared: a test that waits for a real process can fail because another program had the CPU. A build of
several thousand tests must not depend on that. A test that fails twice fails the build. The output of the first failure
stays in the log, and the last lines name every test that needed its second run, because each of them is to be repaired.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MOST = 12
"""Maximum number of failures that may be accidents. More than these have a cause that a second run would not remove."""
SOME_TESTS_FAILED = 1
"""The exit code of pytest for this. Others stand for an interruption, a wrong option, or an error in pytest itself."""
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
"""The file in which pytest keeps the names of the tests that failed; a test that passes later is removed from it."""


def main(options: Sequence[str]) -> int:
    """Run the tests in the current folder and return pytest's exit code: of the second run, if there was one."""
    LAST_FAILED.unlink(missing_ok=True)
    code = _pytest(options)
    failed = _failed()
    if not deserves_second_run(code, failed, options):
        return code
    _announce("FAILED in the first run, now run once more, alone:", failed)
    code = _pytest([*options, "-n", "0", "--last-failed", "--last-failed-no-failures", "none"])
    again = _failed()
    passed = [test for test in failed if test not in again]
    if passed:
        _announce("FAILED in the first run and passed in the second; each of them needs a repair:", passed)
    if again:
        _announce("FAILED twice:", again)
        return code or SOME_TESTS_FAILED
    return code


def deserves_second_run(code: int, failed: Sequence[str], options: Sequence[str] = ()) -> bool:
    """Return whether the tests ran to the end and only a few of them failed. Some options end a run at a failure."""
    ends_early = any(option.startswith(("-x", "--exitfirst", "--maxfail")) for option in options)
    return code == SOME_TESTS_FAILED and 0 < len(failed) <= MOST and not ends_early


def _pytest(options: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *options], check=False).returncode


def _failed() -> list[str]:
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def _announce(headline: str, tests: Sequence[str]) -> None:
    print("=" * 100, headline, *(f"    {test}" for test in tests), "=" * 100, sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
