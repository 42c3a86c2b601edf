"""A BigQuery emulator for tests, in an environment of its own (`scripts/setup bigquery`), on loopback.

It is a stand-in, not BigQuery. It runs Google's client, MERGE, STRUCT, JSON and load jobs; it accepts unknown columns,
missing required fields and MERGE sources with duplicates, all of which BigQuery refuses.

`python -m tests.support.bigquery_emulator` prints the program that would be used, and ends with 1 if there is none.
"""

import atexit
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery

from tests.support.ports import free_ports

_HOME = Path(__file__).parents[2] / ".venv" / "bigquery-emulator"
PROGRAM = _HOME / "bin" / "bqemulator"
EXTENSIONS = _HOME / "home" / ".duckdb" / "extensions"
START_SECONDS = 240.0
PROJECT = "tests"
NAMED = "bigquery"
"""The file in a test's folder that names the emulator, for its processes."""


class BigQueryEmulator:
    """An emulator in a process of its own, which ends with ours. What it holds is in its memory."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="forager-bigquery-"))
        port, other = free_ports(2)
        self.url = f"http://127.0.0.1:{port}"
        command = [str(PROGRAM), "start", "--rest-port", str(port), "--grpc-port", str(other), "--log-level", "error"]
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", *command]
        environment = {**os.environ, "HOME": str(_HOME / "home"), "TMPDIR": str(self._folder)}
        environment.pop("PYTHONPATH", None)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self._folder)
        atexit.register(self.close)
        self._wait()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                httpx.get(f"{self.url}/bigquery/v2/projects/{PROJECT}/datasets", timeout=30.0)
                return
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError(f"the BigQuery emulator did not start: {(self._folder / 'log').read_text()[-2_000:]}")


@cache
def emulator() -> BigQueryEmulator:
    """One for all tests of this process; each test has a dataset of its own. Skips the test if there is no program;
    in CI nothing is silently left out."""
    if not EXTENSIONS.exists():
        message = "There is no BigQuery emulator. `scripts/setup bigquery` installs one in an environment of its own."
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return BigQueryEmulator()


def url_of(folder: Path) -> str:
    """The emulator of a test: the one that its folder names, otherwise the one of this process."""
    named = folder / NAMED
    if not named.exists():
        named.write_text(emulator().url)
    return named.read_text()


def name_emulator(folder: Path) -> None:
    """Start the emulator and name it in a test's folder, before the test starts processes."""
    url_of(folder)


def dataset_of(folder: Path) -> str:
    return f"t{hashlib.sha256(str(folder).encode()).hexdigest()[:10]}"


def client_of(folder: Path) -> bigquery.Client:
    """Google's client, for reading what has arrived."""
    return bigquery.Client(
        project=PROJECT,
        credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
        client_options={"api_endpoint": url_of(folder)},
    )


def rows_of(folder: Path, sql: str) -> list[dict[str, Any]]:
    """The rows of a query in which `{dataset}` stands for the dataset of the test."""
    query = sql.replace("{dataset}", f"{PROJECT}.{dataset_of(folder)}")
    return [dict(row) for row in client_of(folder).query(query).result()]


if __name__ == "__main__":
    sys.stdout.write(f"{PROGRAM}\n")
    sys.exit(not EXTENSIONS.exists())
