"""A site in a process of its own, so that its work is nobody's: a module of `bench.support` that prints its URL."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def site(module: str) -> Iterator[str]:
    command = [sys.executable, "-m", f"bench.support.{module}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
