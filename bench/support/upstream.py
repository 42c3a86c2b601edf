"""The sandbox upstream in a process of its own, with the figures that it counts there."""

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

KEY = "sandbox-key"


@dataclass(frozen=True, slots=True)
class Upstream:
    url: str

    @property
    def netloc(self) -> str:
        return urlsplit(self.url).netloc

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/_sandbox/stats") as answer:
            return dict(json.loads(answer.read()))

    def reset(self) -> None:
        request = urllib.request.Request(f"{self.url}/_sandbox/reset", data=b"", method="POST")
        urllib.request.urlopen(request).close()


@contextlib.contextmanager
def upstream(*, latency_ms: float, per_zip: int | None = None) -> Iterator[Upstream]:
    """No fault, and no limit enforced: requests above the limit would be counted, not refused. Every page is full,
    unless a ZIP has only this number of places."""
    found = ["--full"] if per_zip is None else ["--config", json.dumps({"density": [[1.0, per_zip, per_zip]]})]
    command = [sys.executable, "-m", "forager.sandbox", *found, "--rate-limit", "0", "--latency-ms", str(latency_ms)]
    with subprocess.Popen(
        [*command, "--key", KEY, "--until-stdin-closes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            yield Upstream(json.loads(process.stdout.readline())["url"])
        finally:
            process.terminate()
