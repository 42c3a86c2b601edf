"""The `forager` command in a process of its own, forked from one that has loaded it: it starts in a tenth of the time.

It is a process like any other: it has its own environment, folder and output, takes signals and can be killed. What it
does not show is that `python -m forager` starts; tests of `up` and of the demo use that.
"""

import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.support.forked import start_function


@dataclass
class Command:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self.process.exitcode

    def send_signal(self, sent: signal.Signals) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, sent)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal. Raises `TimeoutExpired` and kills it if it does not end."""
        self.process.join(timeout)
        if self.process.exitcode is None:
            self.process.kill()
            raise subprocess.TimeoutExpired("forager", timeout or 0.0)
        return self.process.exitcode


def start_command(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    out: Path,
    err: Path,
    umask: int | None = None,
) -> Command:
    """Start `forager` with these arguments, in this folder and environment, with its output in two files."""
    for path in (out, err):
        path.write_text("")  # it can be read at once
    where = (str(folder), str(out), str(err), umask)
    return Command(start_function(_run, tuple(arguments), dict(environment), *where, daemon=False))


def start_module(module: str, arguments: Sequence[str], *, environment: Mapping[str, str], output: Path) -> Command:
    """Start `python -m module` in a session and process group of its own; its output is appended to a file."""
    return Command(start_function(_run_module, module, tuple(arguments), dict(environment), str(output), daemon=False))


def _run_module(module: str, arguments: tuple[str, ...], environment: dict[str, str], output: str) -> None:
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(file, stream)
    os.close(file)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _run(
    arguments: tuple[str, ...], environment: dict[str, str], folder: str, out: str, err: str, umask: int | None
) -> None:
    if umask is not None:
        os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for path, stream in ((out, 1), (err, 2)):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    sys.argv = ["forager", *arguments]

    from forager.cli import main

    main()
