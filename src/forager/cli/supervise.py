"""The small parent process of `up` and `worker`: restarts a child that died, and kills one whose event loop is stuck.

It does nothing else, so that little in it can fail. The child sends heartbeats through a pipe from its event loop. A
task that blocks the loop (an endless loop in a parser) stops the heartbeats, and the parent kills the child. The tasks
that were in flight are then suspects, and the ledger isolates the one that caused it.
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

from forager.sdk.cli.invocation import NUMBERS, kept_by

log = structlog.get_logger("forager.cli.supervise")

BEAT_FD = "FORAGER_BEAT_FD"
BEAT_EVERY = 1.0
START_GRACE = 60.0
"""Seconds until the first heartbeat, doubled after each start that was too slow, up to `LONGEST_GRACE`: on a slow
machine no child would ever start within a fixed limit."""
LONGEST_GRACE = 600.0
LONGEST_PAUSE = 5.0
QUICK_DEATH = 5.0
LOOK_FOR_STOP_EVERY = 0.05
AFTER_GRACE = 5.0
"""Seconds beyond its grace period that a stopping child has to settle and exit."""
MOST_IN_A_ROW = 30
"""Maximum number of quick exits in a row (with an exit code, or before the first heartbeat). A worker that is killed
while it works does not count: isolating a task that kills its worker takes several deaths."""
OPEN = "--open"
"""The option of `forager up` that opens a browser."""
_PR_SET_PDEATHSIG = 1


class Supervisor:
    def __init__(self, command: Sequence[str], *, stuck_after: float, grace: float) -> None:
        self._command = list(command)
        self._stuck_after = stuck_after
        self._grace = grace
        self._child: subprocess.Popen[bytes] | None = None
        self._told_to_stop = False
        self._stop_by: float | None = None
        self._has_beaten = False
        self._start_grace = START_GRACE

    def run(self) -> int:
        """Run until the child ends by itself, and return its exit code. SIGTERM and SIGINT are passed on to it.

        A child that a SIGTERM or SIGINT ended had not got far enough to stop in order, so that it did nothing: 0.
        """
        replaced = [signal.signal(number, self._pass_on) for number in NUMBERS]
        if any(kept_by(handler) for handler in replaced):
            return 0  # it came while this process was still importing
        in_a_row = 0
        while True:
            started = time.monotonic()
            code = self._run_once()
            self._command = [each for each in self._command if each != OPEN]  # only the first start opens a browser
            if -code in NUMBERS:
                return 0
            if self._told_to_stop or code == 0 or (code > 0 and not self._has_beaten):
                return code if code >= 0 else 128 - code
            quick = time.monotonic() - started < QUICK_DEATH
            in_a_row = in_a_row + 1 if quick and (code > 0 or not self._has_beaten) else 0
            if in_a_row >= MOST_IN_A_ROW:
                log.error("process_given_up", times=in_a_row)
                return code if code > 0 else 70
            pause = min(LONGEST_PAUSE, 0.1 * (in_a_row + quick))
            log.error("process_restarted", how=_how(code), pause=pause)
            if self._is_stopped_within(pause):
                return 0

    def _is_stopped_within(self, seconds: float) -> bool:
        """Wait for this time, or until a stop is requested. No child runs to which the stop could be passed on."""
        end = time.monotonic() + seconds
        while not self._told_to_stop and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_FOR_STOP_EVERY))
        return self._told_to_stop

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
        if self._told_to_stop:  # the signal came while there was no child to pass it on to
            self._child.terminate()
        try:
            return self._watch(self._child, reader)
        finally:
            os.close(reader)

    def _watch(self, child: subprocess.Popen[bytes], reader: int) -> int:
        patience = self._start_grace
        self._has_beaten = False
        while True:
            if self._stop_by is not None:
                patience = max(0.0, min(patience, self._stop_by - time.monotonic()))
            ready, _, _ = select.select([reader], [], [], patience)
            if ready and os.read(reader, 4096):
                patience = self._stuck_after
                self._has_beaten = True
                self._start_grace = START_GRACE
                continue
            if not ready and child.poll() is None:
                if not self._has_beaten:
                    self._start_grace = min(LONGEST_GRACE, 2 * self._start_grace)
                log.error("process_killed", seconds=patience)
                child.kill()
            return child.wait()

    def _pass_on(self, number: int, _: object) -> None:
        self._told_to_stop = True
        self._stop_by = time.monotonic() + self._grace + AFTER_GRACE
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(number)


async def beat_to_supervisor() -> None:
    """Send heartbeats. Runs in the child, on its event loop; does nothing without a supervisor."""
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


def _how(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _die_with_parent() -> None:
    """Have the system kill the child when the supervisor dies: otherwise a new supervisor would find the store
    locked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
