"""Run all pipelines for hours and check that nothing grows: `make soak HOURS=3`.

Keeps `forager demo --stay` running on a data folder of its own, adds browser visits, and takes a sample every few
seconds of what must stay flat: memory, open files, threads and processes of Forager, browsers, the write-ahead log, the
queue, how far sinks are behind, readiness and its time. The first quarter counts as warm-up. A line is flat if the
median of the last third of the rest is at most `ALLOWED` times that of the first third, or is below its floor. Writes
`build/soak/samples.jsonl` and `build/soak/soak.svg`, prints one JSON object as its last line, and exits with 1 if a
line grew.
"""

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import psutil

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "build" / "soak"
MB = 1 << 20
ALLOWED = 1.15
WARM_UP = 0.25
VISIT_SECONDS = 30.0
"""Time between two pages that are read in a browser."""


@dataclass(frozen=True)
class Line:
    """One figure over time."""

    name: str
    unit: str
    floor: float
    """Below this a figure may vary: it is nothing that could run full."""


LINES = (
    Line("memory", "MB", 64),
    Line("open_files", "", 64),
    Line("threads", "", 16),
    Line("processes", "", 4),
    Line("browser_processes", "", 12),
    Line("wal", "MB", 16),
    Line("queued", "tasks", 500),
    Line("behind", "changes", 2_000),
    Line("readiness", "ms", 250),
    Line("not_ready", "", 0.5),
)


@dataclass(frozen=True)
class Verdict:
    line: Line
    early: float
    late: float

    @property
    def flat(self) -> bool:
        return self.late <= max(self.line.floor, ALLOWED * self.early)


def verdicts(samples: Sequence[Mapping[str, float]]) -> list[Verdict]:
    """Compare the first and the last third of what follows the warm-up. Needs at least twelve samples."""
    if len(samples) < 12:
        raise SystemExit(f"Only {len(samples)} samples: run longer, or with a shorter --every.")
    steady = samples[int(len(samples) * WARM_UP) :]
    third = len(steady) // 3
    return [
        Verdict(
            line,
            statistics.median(each[line.name] for each in steady[:third]),
            statistics.median(each[line.name] for each in steady[-third:]),
        )
        for line in LINES
    ]


class Watched:
    """The Forager of one data folder: its processes, its files, its API."""

    def __init__(self, home: Path, starter: int) -> None:
        self.home = home
        self._starter = psutil.Process(starter)

    def sample(self) -> dict[str, float]:
        own, browsers = [], 0
        for process in self._starter.children(recursive=True):
            try:
                command = " ".join(process.cmdline())
                if "forager.sandbox" in command:
                    continue
                if "chrom" in process.name().lower():
                    browsers += 1
                    continue
                own.append((process.memory_info().rss, process.num_fds(), process.num_threads()))
            except psutil.NoSuchProcess:
                continue
        began = time.monotonic()
        ready = self.is_ready()
        seconds = time.monotonic() - began
        jobs = self.get("/api/v1/jobs?limit=100")["data"]
        wal = self.home / "ledger.db-wal"
        return {
            "at": time.time(),
            "memory": sum(each[0] for each in own) / MB,
            "open_files": sum(each[1] for each in own),
            "threads": sum(each[2] for each in own),
            "processes": len(own),
            "browser_processes": browsers,
            "wal": wal.stat().st_size / MB if wal.exists() else 0.0,
            "queued": sum(job.get("queued") or 0 for job in jobs),
            "behind": max((sink.get("behind") or 0 for sink in self.get("/api/v1/sinks")["data"]), default=0),
            "readiness": seconds * 1000,
            "not_ready": 0.0 if ready else 1.0,
        }

    def is_ready(self) -> bool:
        try:
            self.get("/readiness")
        except HTTPError as refused:
            sys.stderr.write(f"{time.strftime('%H:%M:%S')} not ready: {refused.read()[:300]!r}\n")
            return False
        return True

    def visit(self, number: int) -> None:
        """Have a page of the simulated site read in a browser."""
        for job in self.get("/api/v1/jobs?pipeline=scrape&limit=20")["data"]:
            targets = job["params"].get("targets") or []
            if targets:
                page = {**targets[number % len(targets)], "render": "browser"}
                try:
                    self.get("/api/v1/scrape", {key: value for key, value in page.items() if value is not None})
                except HTTPError as refused:  # a full queue: the samples show it
                    sys.stderr.write(f"{time.strftime('%H:%M:%S')} visit refused: {refused.read()[:300]!r}\n")
                return

    def get(self, path: str, body: Any = None) -> Any:
        """Return the answer of a route; with a body, post it."""
        lock = json.loads((self.home / "lock").read_text())
        key = (self.home / "service.key").read_text().strip()
        request = Request(
            f"{lock['url']}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Service-Key": key, "Content-Type": "application/json"},
        )
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


def run(hours: float, every: float) -> list[dict[str, float]]:
    """Start the demo, let it end its looks, and take samples until the time is over. A sample that fails ends the run:
    while nothing is killed, Forager has to answer."""
    home = Path(tempfile.mkdtemp(prefix="forager-soak-"))
    TARGET.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "forager", "--home", str(home), "demo", "--stay"]
    samples: list[dict[str, float]] = []
    with (
        (TARGET / "demo.log").open("wb") as log,
        (TARGET / "samples.jsonl").open("w") as out,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT) as demo,
    ):
        try:
            _until_it_stays(TARGET / "demo.log", demo)
            watched = Watched(home / "demo" / "all", demo.pid)
            began = visited = time.monotonic()
            while (now := time.monotonic()) < began + hours * 3600:
                if demo.poll() is not None:
                    raise SystemExit(f"The demo ended with {demo.returncode}; see {TARGET / 'demo.log'}.")
                if now >= visited:
                    watched.visit(len(samples))
                    visited = now + VISIT_SECONDS
                samples.append(watched.sample())
                out.write(json.dumps(samples[-1]) + "\n")
                out.flush()
                time.sleep(max(0.0, now + every - time.monotonic()))
        finally:
            demo.send_signal(signal.SIGINT)
            try:
                demo.wait(60)
            except subprocess.TimeoutExpired:
                demo.kill()
    shutil.rmtree(home, ignore_errors=True)
    return samples


def _until_it_stays(log: Path, demo: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 600
    while b"Stays up" not in log.read_bytes():
        if demo.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"The demo did not get to its end; see {log}.")
        time.sleep(1)


def chart(samples: Sequence[Mapping[str, float]], found: Sequence[Verdict]) -> str:
    """Return an SVG with one small chart for each line."""
    width, height, head = 360, 90, 24
    hours = [(each["at"] - samples[0]["at"]) / 3600 for each in samples]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * 3} {(height + head + 16) * 4}">',
        "<style>text { font: 12px system-ui, sans-serif }</style>",
    ]
    for n, verdict in enumerate(found):
        left, top = n % 3 * width, n // 3 * (height + head + 16)
        values = [each[verdict.line.name] for each in samples]
        most = max(*values, 1.0) * 1.1
        points = " ".join(
            f"{left + 8 + x / max(hours[-1], 1e-9) * (width - 24):.1f},{top + head + height - y / most * height:.1f}"
            for x, y in zip(hours, values, strict=True)
        )
        colour = "#1a7f4b" if verdict.flat else "#c0362c"
        label = f"{verdict.line.name.replace('_', ' ')}: {verdict.early:,.0f} → {verdict.late:,.0f} {verdict.line.unit}"
        parts += [
            f'<text x="{left + 8}" y="{top + 16}">{label}</text>',
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>',
        ]
    return "\n".join([*parts, "</svg>"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--hours", type=float, default=3.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samples")
    given = parser.parse_args()
    try:
        samples = run(given.hours, given.every)
    except URLError as error:
        sys.stderr.write(f"Forager did not answer: {error}\n")
        return 1
    found = verdicts(samples)
    (TARGET / "soak.svg").write_text(chart(samples, found), encoding="utf-8")
    for each in found:
        state = "flat" if each.flat else "GROWS"
        sys.stdout.write(f"{each.line.name:>18} {each.early:12,.1f} {each.late:12,.1f} {each.line.unit:8} {state}\n")
    ok = all(each.flat for each in found)
    figures = {each.line.name: [round(each.early, 1), round(each.late, 1)] for each in found}
    sys.stdout.write(
        json.dumps({"name": "soak", "ok": ok, "hours": given.hours, "samples": len(samples), **figures}) + "\n"
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
