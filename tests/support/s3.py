"""A real S3 server for tests: SeaweedFS on loopback, in an environment of its own (`scripts/setup s3`).

`python -m tests.support.s3` names the program that would be used, and ends with 1 if there is none.
"""

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from forager.app.config import new_settings
from forager.core.errors import Transient
from forager.storage.s3 import S3
from forager.storage.settings import S3Address, S3Settings
from tests.support.ports import free_ports

PROGRAM = Path(__file__).parents[2] / ".venv" / "seaweedfs" / "bin" / "weed"
START_SECONDS = 120.0
STARTS = 3
BUCKET = "forager-test"
KEY, SECRET = "forager-key", "forager-secret"
ENDPOINT = "s3-endpoint"
"""The file in a test's folder that names the server, for its processes."""
_PARTS = ("master", "volume", "filer", "s3")


class SeaweedFS:
    """A server with a folder of its own; both are gone when this process ends, however it ends."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="seaweedfs-"))
        signs_in = {"accessKey": KEY, "secretKey": SECRET}
        who = {"name": "test", "credentials": [signs_in], "actions": ["Admin", "Read", "Write", "List"]}
        (self._folder / "s3.json").write_text(json.dumps({"identities": [who]}))
        ports = free_ports(2 * len(_PARTS))
        given: dict[str, object] = {f"{part}.port": port for part, port in zip(_PARTS, ports, strict=False)}
        given |= {f"{part}.port.grpc": port for part, port in zip(_PARTS, ports[len(_PARTS) :], strict=True)}
        given |= {"s3.config": self._folder / "s3.json", "dir": self._folder, "ip": "127.0.0.1", "ip.bind": "127.0.0.1"}
        given |= {f"{part}.localSocket": self._folder / f"{part}.sock" for part in ("s3", "filer")}
        given |= {"master.telemetry": "false", "master.volumeSizeLimitMB": 64, "volume.max": 50, "s3.iam": "false"}
        given |= {"s3.port.iceberg": 0, "s3.port.lance": 0}
        self.endpoint = f"http://127.0.0.1:{given['s3.port']}"
        dies_with_us = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        options = [f"-{name}={value}" for name, value in given.items()]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*dies_with_us, str(PROGRAM), "-logtostderr=true", "server", "-filer", "-s3", *options],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def wait(self) -> None:
        """Return when the bucket can be written to; the first write makes it."""
        place, give_up = S3(S3Address(BUCKET), s3_settings(self.endpoint)), time.monotonic() + START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                place.put("ready", b"")
            except Transient:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"the S3 server did not start: {(self._folder / 'log').read_text()[-2_000:]}")

    def close(self) -> None:
        self._process.kill()  # in order, it takes 15 seconds
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def s3_server() -> SeaweedFS:
    """One for all tests of this process; each test has a prefix of its own. Skips the test if there is no program."""
    if not PROGRAM.exists():
        told = "There is no S3 server. `scripts/setup s3` installs SeaweedFS in an environment of its own."
        if os.environ.get("CI"):
            pytest.fail(told)
        pytest.skip(told)
    for left in reversed(range(STARTS)):
        server = SeaweedFS()
        atexit.register(server.close)
        try:
            server.wait()
        except RuntimeError:  # a port that was free a moment ago may be in use by now
            if not left:
                raise
        else:
            break
    return server


def s3_values(endpoint: str | None = None) -> dict[str, Any]:
    """The settings of this server."""
    secret = SecretStr(SECRET)
    return {"s3_endpoint": endpoint or s3_server().endpoint, "s3_access_key": KEY, "s3_secret_key": secret}


def s3_settings(endpoint: str | None = None) -> S3Settings:
    return new_settings(**s3_values(endpoint)).of(S3Settings)


def address_of(folder: Path) -> S3Address:
    """The address of a test, by its folder."""
    return S3Address(BUCKET, (hashlib.sha256(str(folder).encode()).hexdigest()[:16],))


def name_server(folder: Path) -> None:
    """Write down the server of a test, before it starts processes that use it."""
    (folder / ENDPOINT).write_text(s3_server().endpoint)


def place_of(folder: Path, endpoint: str | None = None) -> S3:
    """The place of a test, also from a process that the test has started."""
    named = folder / ENDPOINT
    if endpoint is None and not named.exists():
        name_server(folder)
    return S3(address_of(folder), s3_settings(endpoint or named.read_text()))


if __name__ == "__main__":
    sys.stdout.write(f"{PROGRAM}\n")
    sys.exit(not PROGRAM.exists())
