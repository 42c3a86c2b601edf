"""A real Prefect server for tests, in an environment of its own (`scripts/setup prefect`), on loopback.

`python -m tests.support.prefect_server` prints the program that would be used, and ends with 1 if there is none.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.support.ports import free_ports

_HOME = Path(__file__).parents[2] / ".venv" / "prefect-server"
PROGRAM = _HOME / "bin" / "prefect"
EMPTY = _HOME / "empty" / "prefect.db"
"""An empty database: its migrations take longer than a start."""
START_SECONDS = 240.0
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_UI_ENABLED": "false",
    "PREFECT_LOGGING_LEVEL": "WARNING",
}


class PrefectServer:
    """A server with an SQLite database in `folder`. `kill` is a power cut; after `forget`, `begin` starts it with an
    empty database."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        (self._port,) = free_ports(1)
        self.forget()
        self.api_url = f"http://127.0.0.1:{self._port}/api"

    def begin(self) -> None:
        """Start it; `wait` returns when it answers."""
        command = [str(PROGRAM), "server", "start", "--host", "127.0.0.1", "--port", str(self._port), "--no-services"]
        environment = {**os.environ, **QUIET, "PREFECT_HOME": str(self._folder)}
        environment.pop("PYTHONPATH", None)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=self._folder)

    def wait(self) -> None:
        assert self._process is not None
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                if httpx.get(f"{self.api_url}/health", timeout=5.0).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise RuntimeError(f"the Prefect server did not start: {(self._folder / 'log').read_text()[-2_000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Delete the database, and begin again with an empty one."""
        for file in self._folder.glob("prefect.db*"):
            file.unlink()
        shutil.copy(EMPTY, self._folder)


def require_prefect() -> None:
    """Without a server its tests are skipped with the reason; in CI nothing is silently left out."""
    if not EMPTY.exists():
        told = "There is no Prefect server. `scripts/setup prefect` installs one in an environment of its own."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)


if __name__ == "__main__":
    sys.stdout.write(f"{PROGRAM}\n")
    sys.exit(not EMPTY.exists())
