"""Prepares a demo: an empty data folder, and the simulated upstream in its own process."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from forager.core.errors import Conflict, Rejected, StoreLocked, StoreUnavailable
from forager.kit.cli.demo import Demo, Upstream

_MARK = ".made-by-forager-demo"


def fresh_folder(home: Path) -> Path:
    """Return an empty data folder. Files of an earlier demo are removed; a folder that is not from a demo is not
    touched."""
    from forager.ledger.sqlite.lock import make_private, read_owner

    if home.exists():
        if not (home / _MARK).exists() and any(home.iterdir()):
            raise Conflict(f"{home} is not from a demo, so it is left alone. Move it away, or use another --home.")
        if (owner := read_owner(home / "lock")) is not None:
            raise StoreLocked(f"A demo is running in {home} already (process {owner.pid}). Wait for it, or end it.")
        shutil.rmtree(home)
    try:
        make_private(home)
        (home / _MARK).touch()
    except OSError as error:
        raise Rejected(
            f"The demo cannot make its folder {home} ({error.strerror}). Name another data folder with --home."
        ) from error
    return home


@contextmanager
def upstream_process(demo: Demo, home: Path) -> Iterator[Callable[[], Upstream]]:
    """Serve the demo's upstream in a process that ends with this one. Yields a function that waits until it answers."""
    log = home / "requests.jsonl"
    command = demo.upstream(log)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment()) as process:  # noqa: S603 - the demo's own command line
        try:
            yield lambda: _ready(process, log)
        finally:
            process.terminate()


def clean_environment(**ours: str) -> dict[str, str]:
    """Return the environment without the user's Forager settings, so that a demo runs with the defaults."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SYSTEMROOT")
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    return {**python, **{name: os.environ[name] for name in kept if name in os.environ}, **ours}


def _ready(process: "subprocess.Popen[bytes]", log: Path) -> Upstream:
    """Wait for the line with which the upstream announces where it listens."""
    assert process.stdout is not None  # noqa: S101 - requested above
    line = process.stdout.readline()
    if not line:
        raise StoreUnavailable("The sandbox did not start. Try it alone to see why: forager sandbox")
    announced = orjson.loads(line)
    return Upstream(str(announced.get("url", "")), log, announced)
