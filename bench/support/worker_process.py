"""Workers in processes of their own, each of which writes a line four times a second: the time, and how many tasks it
has ended."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench.support.peers import ROOT


@dataclass
class Process:
    """A worker, and what it has written."""

    popen: "subprocess.Popen[str]"
    told: list[tuple[float, int]] = field(default_factory=list)

    def listen(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            at, ended = line.split()
            self.told.append((float(at), int(ended)))

    def ended_between(self, start: float, end: float) -> int:
        counts = [ended for at, ended in self.told if start <= at <= end]
        return counts[-1] - counts[0] if counts else 0


@contextlib.contextmanager
def worker(module: str, *arguments: str) -> Iterator[Process]:
    """Run `python -m module arguments…`, which ends when it is terminated."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1) as popen:
        process = Process(popen)
        listener = threading.Thread(target=process.listen, daemon=True)
        listener.start()
        try:
            yield process
        finally:
            popen.terminate()
            listener.join()
