"""Killed at every commit boundary (R3): nothing acknowledged is lost, nothing happens twice, every counter is exact."""

import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.fail_points import BROKEN, POINTS, TASKS
from tests.support.postgres import Postgres

KILLS = 2
FULL_KILLS = 20

Findings = dict[str, Any]


def _doomed(folder: Path, kills: int, *points: str) -> dict[str, Findings]:
    seed = int(os.environ.get("FORAGER_TEST_SEED") or random.randrange(2**32))
    command = [sys.executable, "-m", "tests.support.fail_points", str(folder), str(kills), str(seed), *points]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.returncode == 0, f"FORAGER_TEST_SEED={seed}\n{ran.stderr}"
    findings: dict[str, Findings] = orjson.loads(ran.stdout)
    return findings


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Findings]:
    """All points in one process, because starting it takes longer than dying."""
    return _doomed(tmp_path_factory.mktemp("doomed"), KILLS, *POINTS, BROKEN)


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, postgres_template: str
) -> Iterator[dict[str, Findings]]:
    """The same over PostgreSQL, a database for each point."""
    with _databases(postgres, postgres_template, *POINTS, BROKEN) as words:
        yield _doomed(tmp_path_factory.mktemp("doomed"), KILLS, *words)


@contextlib.contextmanager
def _databases(postgres: Postgres, template: str, *points: str) -> Iterator[list[str]]:
    urls = {point: postgres.create_database(template) for point in points}
    yield [f"{point}={url}" for point, url in urls.items()]
    for url in urls.values():
        postgres.drop_database(url)


def _check(found: Findings, kills: int) -> None:
    sys.stdout.write(f"FORAGER_TEST_SEED={found['seed']}, faults fired: {found['fired']}\n")
    assert found["fired"] == kills, "every fault must fire, or nothing was tested"
    assert (found["broken"], found["lost"], found["doubled"], found["unfinished"]) == ([], [], [], [])
    assert found["tasks"] == TASKS * (kills + 1)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_commit_boundary_loses_and_doubles_nothing__R3(point: str, findings: dict[str, Findings]) -> None:
    _check(findings[point], KILLS)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_a_commit_boundary_of_postgres_loses_and_doubles_nothing__R3(
    point: str, served: dict[str, Findings]
) -> None:
    _check(served[point], KILLS)


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_twenty_kills_at_a_commit_boundary_lose_and_double_nothing__R3(point: str, tmp_path: Path) -> None:
    _check(_doomed(tmp_path, FULL_KILLS, point)[point], FULL_KILLS)


@pytest.mark.chaos
@pytest.mark.parametrize("point", POINTS)
def test_twenty_kills_at_a_commit_boundary_of_postgres_lose_and_double_nothing__R3(
    point: str, tmp_path: Path, postgres: Postgres, postgres_template: str
) -> None:
    with _databases(postgres, postgres_template, point) as words:
        _check(_doomed(tmp_path, FULL_KILLS, *words)[point], FULL_KILLS)


@pytest.mark.parametrize("store", ["findings", "served"])
def test_the_auditor_catches_an_effect_in_two_transactions__R3(store: str, request: pytest.FixtureRequest) -> None:
    """The negative control: the same kills over a ledger that commits task states before their records."""
    found: Findings = request.getfixturevalue(store)[BROKEN]
    assert found["fired"] == KILLS
    assert found["broken"], "a half effect must be seen"
