"""`make walk` runs one task of each pipeline through the real command line and lists the files that it passes."""

import re
import subprocess
import sys

import pytest

from scripts.walk import TOURS

HEART = ("app/intake.py", "engine/", "ledger/sqlite/", "fetch/", "pipelines/")


@pytest.mark.parametrize(
    "name",
    [
        "places",
        "scrape",
        *(pytest.param(each, marks=pytest.mark.chaos) for each in ("listings", "products", "reviews")),
    ],
)
def test_a_walk_lists_the_files_from_the_submission_to_the_settlement(name: str) -> None:
    command = [sys.executable, "-m", "scripts.walk", name]
    walked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert walked.returncode == 0, walked.stderr
    *files, last = walked.stdout.splitlines()
    (count,) = re.fullmatch(rf"{name}: (\d+) files", last).groups()  # type: ignore[union-attr]
    listed = [line.split()[0] for line in files if line.startswith("    ")]
    assert len(listed) == len(set(listed)) == int(count)
    for place in HEART:
        assert any(file.startswith(place) for file in listed), place
    assert not any(file.startswith("sandbox/") for file in listed)


def test_an_unknown_tour_is_refused_with_those_there_are() -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "scripts.walk", "pets"], capture_output=True, text=True, timeout=60, check=False
    )
    assert refused.returncode == 2
    assert all(name in refused.stderr for name in TOURS)
