"""Records running browsers, each in a file in `pids/`, so that none outlives our process for long.

A browser ends by itself when our process dies (its pipe closes). If that fails, the next start finds its file and ends
it. Only a process that is certainly ours is ended: same pid, same start time, and our mark on its command line.
"""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

PROC = Path("/proc")
MARK = "--forager-browser="
"""A flag that Chromium does not know and therefore ignores; its value is unique to one browser."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process identified by pid and start time: the kernel reuses a pid, but not with the same start time."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        fields = _stat(pid)
        return cls(pid, int(fields[19])) if fields and fields[0] != "Z" else None

    @property
    def is_alive(self) -> bool:
        return Process.of(self.pid) == self


@dataclass(frozen=True, slots=True)
class Entry:
    browser: Process
    owner: Process
    mark: str


def find_marked(mark: str) -> Process | None:
    """Return the process with this mark, which only a browser's main process has."""
    return next((process for pid in _pids() if _has_mark(pid, mark) and (process := Process.of(pid))), None)


def record(folder: Path, browser: Process, mark: str) -> Path:
    """Record a browser that belongs to this process."""
    owner = Process.of(os.getpid())
    path = folder / f"browser-{browser.pid}-{browser.started}.json"
    for each in (folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(json.dumps({"browser": asdict(browser), "owner": owner and asdict(owner), "mark": mark}))
    return path


def end_orphans(folder: Path) -> int:
    """End the browsers whose owner is dead, and return how many. Files of browsers that have ended are removed."""
    ended = 0
    for path in sorted(folder.glob("browser-*.json")):
        entry = _read(path)
        if entry is not None and entry.owner.is_alive:
            continue
        if entry is not None and entry.browser.is_alive and _has_mark(entry.browser.pid, entry.mark):
            kill_tree(entry.browser)
            ended += 1
        path.unlink(missing_ok=True)
    return ended


def kill_tree(process: Process) -> None:
    """Kill a browser's process and all its descendants."""
    tree = family(process)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.is_alive and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    for member in tree:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if member.is_alive:
                os.kill(member.pid, signal.SIGKILL)


def family(process: Process) -> list[Process]:
    """Return a process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)
    members: list[Process] = []
    pending = [process.pid] if process.is_alive else []
    while pending:
        pid = pending.pop()
        if member := Process.of(pid):
            members.append(member)
        pending += children.get(pid, [])
    return members


def memory_of(process: Process) -> int:
    """Return the bytes that a browser uses: the private memory of each process, plus the shared memory once.

    The kernel keeps these figures; the proportional share would be more exact, but takes milliseconds to compute.
    """
    pages = [_pages(member.pid) for member in family(process)]
    return (sum(own for own, _ in pages) + max((shared for _, shared in pages), default=0)) * os.sysconf("SC_PAGESIZE")


def _pages(pid: int) -> tuple[int, int]:
    try:
        _, resident, shared, *_ = map(int, (PROC / str(pid) / "statm").read_text(errors="replace").split())
    except (OSError, ValueError):
        return 0, 0
    return resident - shared, shared


def _read(path: Path) -> Entry | None:
    try:
        fields = json.loads(path.read_text(errors="replace"))
        return Entry(Process(**fields["browser"]), Process(**fields["owner"]), str(fields["mark"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _pids() -> Iterator[int]:
    if PROC.is_dir():
        yield from (int(path.name) for path in PROC.iterdir() if path.name.isdigit())


def _has_mark(pid: int, mark: str) -> bool:
    try:
        return f"{MARK}{mark}".encode() in (PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces: state, parent, …"""
    try:
        return (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
