"""Measures how quiet the machine is while a benchmark runs.

A sample gives every core work at the same time: on a quiet machine each gets all of its core, and the same amount of
work takes the same CPU time before and after. Figures per second count only where that held.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

LEAST_SHARE = 0.90
MOST_DRIFT = 1.20
SPIN = """
import json, time
wall, cpu, loops = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - wall < 0.4:
    sum(range(10_000)); loops += 1
cpu = time.process_time() - cpu
print(json.dumps([cpu / (time.perf_counter() - wall), loops / cpu]))
"""


@dataclass(frozen=True, slots=True)
class Sample:
    share: float
    """Smallest share of a core that a busy process got."""
    speed: float
    """Work done per second of CPU time."""
    fsync_ms: float


@dataclass
class Machine:
    """Samples taken before, between and after the rounds, which show whether the machine was quiet."""

    samples: list[Sample] = field(default_factory=list)
    load: float = field(default_factory=lambda: os.getloadavg()[0])
    """The load average when the benchmark began, before it added its own."""

    def sample(self) -> None:
        spinners = [
            subprocess.Popen([sys.executable, "-c", SPIN], stdout=subprocess.PIPE) for _ in range(os.cpu_count() or 1)
        ]
        answers = [json.loads(spinner.communicate()[0]) for spinner in spinners]
        share = min(answer[0] for answer in answers)
        speed = statistics.mean(answer[1] for answer in answers)
        self.samples.append(Sample(share, speed, _fsync_ms()))

    @property
    def quiet(self) -> bool:
        return self.share >= LEAST_SHARE and self.drift <= MOST_DRIFT

    @property
    def share(self) -> float:
        return min(sample.share for sample in self.samples)

    @property
    def drift(self) -> float:
        speeds = [sample.speed for sample in self.samples]
        return max(speeds) / min(speeds)

    def describe(self) -> str:
        fsync = statistics.median(sample.fsync_ms for sample in self.samples)
        return (
            f"{'quiet' if self.quiet else 'busy'}: {os.cpu_count()} cores, of which a process got at least "
            f"{self.share:.0%} (quiet: ≥ {LEAST_SHARE:.0%}), speed varied {self.drift:.2f} × (quiet: ≤ {MOST_DRIFT}), "
            f"load average {self.load:.1f} at the start, fsync {fsync:.2f} ms"
        )


def _fsync_ms() -> float:
    """The median of a few small durable writes: what a commit costs at least."""
    taken = []
    with tempfile.TemporaryFile() as file:
        for _ in range(15):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)
