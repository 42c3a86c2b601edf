"""What both demos stand on: a folder of their own, the sandbox as a process, and the job they run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from forager.core.errors import Conflict, Rejected, StoreLocked, StoreUnavailable

JOB = {"keyword": "bars", "state": "AZ", "pages": 3}
WHERE = "Arizona"
UPSTREAM_KEY = "sandbox-key"
SANDBOX: dict[str, Any] = {
    "key": UPSTREAM_KEY,
    "latency_ms": 200.0,
    "latency_sigma": 0.25,
    "faults": {"http500": 0.01},
    "rate_limit": 300,
}
"""As a real upstream: a fifth of a second, a limit, and one answer in a hundred is an error."""
RATE = 240
RETRY_DELAY = 0.3
_MARK = ".made-by-forager-demo"


@dataclass(frozen=True, slots=True)
class Upstream:
    url: str
    log: Path
    """One line for each request that it ever got."""

    @property
    def address(self) -> str:
        return self.url.removeprefix("http://")


def fresh_folder(home: Path) -> Path:
    """An empty data folder for a demo. What an earlier demo left is removed; anything else is not touched."""
    from forager.ledger.sqlite.lock import read_owner

    if home.exists():
        if not (home / _MARK).exists() and any(home.iterdir()):
            raise Conflict(f"{home} is not from a demo, so it is left alone. Move it away, or use another --home.")
        if (owner := read_owner(home / "lock")) is not None:
            raise StoreLocked(f"A demo is running in {home} already (process {owner.pid}). Wait for it, or end it.")
        shutil.rmtree(home)
    try:
        home.mkdir(parents=True)
        (home / _MARK).touch()
    except OSError as error:
        raise Rejected(
            f"The demo cannot make its folder {home} ({error.strerror}). Name another data folder with --home."
        ) from error
    return home


@contextmanager
def sandbox_process(home: Path) -> Iterator[Callable[[], Upstream]]:
    """The simulated Serper, in a process of its own that ends with this one. Gives what waits until it answers."""
    log = home / "requests.jsonl"
    config = orjson.dumps({**SANDBOX, "log_path": str(log)}).decode()
    command = [sys.executable, "-m", "forager.sandbox", "--until-stdin-closes", "--config", config]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as process:  # noqa: S603 - our own command line
        try:
            yield lambda: Upstream(_announced(process), log)
        finally:
            process.terminate()


def clean_environment(**ours: str) -> dict[str, str]:
    """The demo shows Forager as it comes: nobody's settings reach into it."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return {**python, **{name: os.environ[name] for name in kept if name in os.environ}, **ours}


def _announced(process: "subprocess.Popen[bytes]") -> str:
    assert process.stdout is not None  # noqa: S101 - it was asked for
    line = process.stdout.readline()
    if not line:
        raise StoreUnavailable("The sandbox did not start. Try it alone to see why: forager sandbox")
    return str(orjson.loads(line)["url"])
