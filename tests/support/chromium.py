"""The Chromium of this machine, for tests and benchmarks. `python -m tests.support.chromium` prints its path, or ends
with 1."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from forager.core.errors import Unconfigured
from forager.fetch.browser.chromium import find_chromium

PATIENCE = 60.0


def require_chromium() -> Path:
    """Without Chromium its tests are skipped with the reason; in CI nothing is silently left out."""
    try:
        if importlib.util.find_spec("playwright") is None:
            raise Unconfigured("Playwright is not installed. Run `make setup`.")
        return find_chromium(os.environ.get("FORAGER_CHROMIUM"))
    except Unconfigured as reason:
        told = f"{reason.message} `scripts/setup browser` does it where it can."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)


def be_patient(patch: pytest.MonkeyPatch) -> None:
    """Give a browser as long as the first start from a cold disk takes on a machine that is busy with other tests."""
    from forager.fetch.browser import chromium, visit

    patch.setattr(chromium, "LAUNCH_TIMEOUT", PATIENCE)
    patch.setattr(visit, "OPEN_TIMEOUT", PATIENCE)
    patch.setattr(visit, "SCREENSHOT_TIMEOUT", PATIENCE)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{find_chromium(os.environ.get('FORAGER_CHROMIUM'))}\n")
    except Unconfigured as reason:
        sys.exit(reason.message)
