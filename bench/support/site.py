"""A site in its own process, so that its work is charged to neither side. Prints its URL."""

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
