"""Temporary files of the tests in memory. On a disk, making and removing thousands of small databases takes longer than
the tests themselves. Benchmarks do not use this: what they measure includes the disk."""

import os
import tempfile
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")
ROOM = 6 << 30
"""Bytes that must be free, in the folder and in memory: a run of six processes holds less than three quarters of it."""


def use_memory() -> None:
    """Let this process and its children put temporary files in memory, if there is room and TMPDIR is not set.

    Killed processes lose nothing in either place; only a machine that loses its power would make a difference.
    """
    if "TMPDIR" not in os.environ and is_usable(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been looked up already


def is_usable(folder: Path) -> bool:
    """Return whether a folder in memory has room and lets programs run in it, which containers often forbid."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    state = os.statvfs(folder)
    free = min(state.f_bavail * state.f_frsize, psutil.virtual_memory().available)
    return free >= ROOM and not state.f_flag & os.ST_NOEXEC
