"""The small parent of `up` and `worker`: restarts a child that died, ends one whose loop is stuck.

It does nothing else, so that there is nothing in it to fail. The child beats through a pipe from its event loop; a
task that never gives the loop back (an endless loop in a parser) stops the beats, and the parent kills the child. What
was in flight is then suspect, and the ledger finds the guilty task.
"""

import asyncio
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import structlog

log = structlog.get_logger("forager.supervise")

BEAT_FD = "FORAGER_BEAT_FD"
BEAT_EVERY = 1.0
START_GRACE = 60.0
LONGEST_PAUSE = 5.0
QUICK_DEATH = 5.0
MOST_QUICK_DEATHS = 20
_PR_SET_PDEATHSIG = 1


class Supervisor:
    def __init__(self, command: Sequence[str], *, stuck_after: float, grace: float) -> None:
        self._command = list(command)
        self._stuck_after = stuck_after
        self._grace = grace
        self._child: subprocess.Popen[bytes] | None = None
        self._told_to_stop = False

    def run(self) -> int:
        """Until the child ends by itself; returns its exit code. SIGTERM and SIGINT are passed on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        quick_deaths = 0
        while True:
            started = time.monotonic()
            code = self._run_once()
            if self._told_to_stop or code >= 0:
                return code if code >= 0 else 128 - code
            quick_deaths = quick_deaths + 1 if time.monotonic() - started < QUICK_DEATH else 0
            if quick_deaths >= MOST_QUICK_DEATHS:
                log.error("the process dies at once, again and again: giving up", deaths=quick_deaths)
                return 70
            pause = min(LONGEST_PAUSE, 0.1 * quick_deaths)
            log.error("the process died and is started again", signal=signal.Signals(-code).name, pause=pause)
            time.sleep(pause)

    def _run_once(self) -> int:
        reader, writer = os.pipe()
        environment = {**os.environ, BEAT_FD: str(writer)}
        self._child = subprocess.Popen(  # noqa: S603 - our own command line
            self._command,
            pass_fds=[writer],
            env=environment,
            preexec_fn=_die_with_parent,
        )
        os.close(writer)
        try:
            return self._watch(self._child, reader)
        finally:
            os.close(reader)

    def _watch(self, child: subprocess.Popen[bytes], reader: int) -> int:
        patience = START_GRACE
        while True:
            ready, _, _ = select.select([reader], [], [], patience)
            if ready and os.read(reader, 4096):
                patience = self._stuck_after
                continue
            if not ready and child.poll() is None:
                log.error("the process does not answer: killing it", seconds=patience)
                child.kill()
            return child.wait()

    def _pass_on(self, number: int, _: object) -> None:
        self._told_to_stop = True
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


async def beat_to_supervisor() -> None:
    """Runs in the child, beside everything else on its loop. Without a supervisor it does nothing."""
    beat_fd = os.environ.get(BEAT_FD)
    if beat_fd is None:
        return
    while True:
        try:
            os.write(int(beat_fd), b".")
        except OSError:
            return
        await asyncio.sleep(BEAT_EVERY)


def supervised_command(arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "forager", *arguments]


def is_supervised() -> bool:
    return BEAT_FD in os.environ


def _die_with_parent() -> None:
    """A supervisor that is killed takes its child along: two owners of one store would be worse."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
