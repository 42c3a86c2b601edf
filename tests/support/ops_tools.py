"""The programs that check the files for operators: hadolint, promtool and Docker Compose."""

import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

FETCHED = Path(__file__).parents[2] / ".venv" / "ops"
"""Where `scripts/setup ops` unpacks promtool and Docker Compose."""
BESIDE_PYTHON = Path(sys.executable).parent
"""Where the package of hadolint has its program."""


def require_tool(name: str) -> str:
    """Return the path of a program. Skip the test where it is missing; fail it in CI, where nothing may be left out
    unless the program does not exist for the machine."""
    found = shutil.which(name, path=os.pathsep.join([str(BESIDE_PYTHON), str(FETCHED), os.environ["PATH"]]))
    if found is not None:
        return found
    reason = f"{name} is missing. Run `scripts/setup dev` and `scripts/setup ops`."
    if os.environ.get("CI") and (sys.platform, platform.machine()) == ("linux", "x86_64"):
        pytest.fail(reason)
    pytest.skip(reason)
