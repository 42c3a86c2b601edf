"""A real disk that is soon full: a small tmpfs, which root alone can mount. It is unmounted whatever happens."""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOM = 1 << 16


class NoSmallDisk(Exception):
    """None can be mounted here; the message says why."""


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Until not a byte is left."""
        with self._ballast.open("ab", buffering=0) as ballast:
            for size in (ROOM, 512, 1):
                with contextlib.suppress(OSError):
                    while True:
                        ballast.write(b"\0" * size)

    def free(self) -> None:
        self._ballast.unlink()

    @property
    def is_full(self) -> bool:
        return os.statvfs(self.path).f_bavail == 0


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    if os.geteuid() != 0:
        raise NoSmallDisk("Only root can mount a small disk to be filled.")
    folder = Path(tempfile.mkdtemp(prefix="forager-small-disk-", dir="/tmp"))
    folder.chmod(0o755)
    path = folder / "disk"
    path.mkdir()
    options = f"size={megabytes}m,mode=1777"
    try:
        try:
            made = subprocess.run(
                ["mount", "-t", "tmpfs", "-o", options, "forager-test", str(path)],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError as missing:
            raise NoSmallDisk("There is no `mount` here.") from missing
        if made.returncode != 0:
            raise NoSmallDisk(f"A small disk cannot be mounted here: {made.stderr.strip() or os.strerror(errno.EPERM)}")
        try:
            yield SmallDisk(path)
        finally:
            # Lazily if somebody still has a file open there: nothing stays mounted.
            if subprocess.run(["umount", str(path)], capture_output=True, check=False).returncode != 0:
                subprocess.run(["umount", "-l", str(path)], capture_output=True, check=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
