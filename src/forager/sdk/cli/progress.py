"""Shows the progress of a job on standard error: a bar on a terminal, plain lines elsewhere, nothing for programs.

The job is polled instead of streamed: a poll is cheap, and polling survives a restart of the server.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from forager.core.states import BUDGET
from forager.sdk.cli.client import Api
from forager.sdk.cli.render import GENERAL, Words, count, duration, some

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Job = Mapping[str, Any]
ENDED = frozenset({"completed", "partially_completed", "failed", "cancelled"})
LOOK_EVERY = 0.2
LINE_EVERY = 2.0
WORTH_TELLING = 1.0
"""Seconds that a job must have waited before its reason is shown."""
REASON_EVERY = 30.0
"""Seconds between two lines with the same reason for a wait."""
RATE_OVER = 3.0
"""Window of the displayed rate in seconds: long enough to be steady, short enough to be current."""


class ProgressView(Protocol):
    def update(self, job: Job) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


async def follow(api: Api, job_id: str, view: ProgressView, *, every: float = LOOK_EVERY) -> Job:
    """Show progress until the job has ended or is paused. Returns the job in its final state."""
    waits_since: float | None = None
    with view:
        while True:
            job: Job = await api.get(f"/jobs/{job_id}")
            now = time.monotonic()
            waits_since = None if not job.get("waiting") else waits_since or now
            # Do not report a short wait: the engine may just be starting.
            view.update(job if waits_since is None or now - waits_since >= WORTH_TELLING else {**job, "waiting": None})
            if has_stopped(job):
                return job
            await asyncio.sleep(every)


def has_stopped(job: Job) -> bool:
    """Return whether the job has ended or is paused."""
    return job["state"] in ENDED or (job["state"] == "paused" and not job["running"])


def waiting(job: Job) -> str | None:
    """Return the reason why none of the job's tasks runs now; None if some do or may."""
    reason = job.get("waiting")
    return str(reason["message"]) if reason else None


def is_out_of_budget(job: Job) -> bool:
    """Return whether the job ended early because its budget was spent."""
    return job.get("reason") == BUDGET and job["max_cost"] is not None and job["state"] != "paused"


def done(job: Job) -> int:
    return int(job["completed"] + job["failed"] + job["skipped"] + job["cancelled"])


class JobSpeed:
    """The speed of a job over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int, int]] = deque()
        """(moment, tasks that have ended, answers, units spent)"""

    def note(self, job: Job, now: float) -> None:
        answers = int(job["completed"] + job["failed"] + job["retries"])
        self._seen.append((now, done(job), answers, int(job.get("spent") or 0)))
        while len(self._seen) > 2 and now - self._seen[0][0] > RATE_OVER:
            self._seen.popleft()

    @property
    def calls(self) -> float:
        """Return the answers per second."""
        return self._per_second(2)

    def left(self, job: Job) -> float | None:
        """Return the estimated seconds until the last task has ended or the budget is spent, whichever comes first;
        None if it is too early for an estimate. The lanes bound the speed: a first burst does not count, and a job
        whose requests are seconds apart has an estimate before the first of them has ended."""
        speed, allowed = self._per_second(1), job.get("lane_rate")
        if allowed:
            speed = min(speed, allowed) if speed > 0 else allowed
        ends = [(job["total"] - done(job), speed)]
        if job.get("max_cost") is not None:
            ends.append((job["max_cost"] - job["spent"], self._per_second(3)))
        return min((max(0, amount) / per_second for amount, per_second in ends if per_second > 0), default=None)

    def _per_second(self, column: int) -> float:
        if len(self._seen) < 2:
            return 0.0
        first, last = self._seen[0], self._seen[-1]
        return (last[column] - first[column]) / max(0.001, last[0] - first[0])


class BarView:
    """A progress bar of two lines that are redrawn in place."""

    def __init__(self, console: "Console", words: Words = GENERAL) -> None:
        from rich.live import Live

        self._words = words
        self._live = Live(console=console, refresh_per_second=10, transient=False)
        self._pace = JobSpeed()

    def update(self, job: Job) -> None:
        self._pace.note(job, time.monotonic())
        self._live.update(self._drawn(job))

    def _drawn(self, job: Job) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        ended = done(job)
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True, overflow="ellipsis", max_width=28)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        bar = ProgressBar(total=max(1, job["total"]), completed=ended, pulse=job["state"] == "queued")
        line.add_row(Text(self._words.request(job["params"])), bar, Text(f"{ended:,}/{job['total']:,} {_percent(job)}"))
        return Group(line, Text("  " + " · ".join(self._figures(job)), style="dim", no_wrap=True, overflow="ellipsis"))

    def _figures(self, job: Job) -> list[str]:
        figures = ["paused"] if job["state"] == "paused" else []
        if message := waiting(job):
            figures.append(message)
        elif job["state"] not in ENDED:
            figures += [f"{self._pace.calls:,.0f}/s", f"{duration(self._pace.left(job))} left"]
        return figures + short_figures(job, self._words)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)


class LineView:
    """Prints a line from time to time, for logs and pipes."""

    def __init__(self, console: "Console", words: Words = GENERAL) -> None:
        self._console = console
        self._words = words
        self._pace = JobSpeed()
        self._next = 0.0
        self._reason: tuple[str, str | None] | None = None
        self._next_reason = 0.0

    def update(self, job: Job) -> None:
        now = time.monotonic()
        self._pace.note(job, now)
        if message := waiting(job):
            self._say_why(message, (job["waiting"]["reason"], job["waiting"]["lane"]), now)
            return
        self._reason = None
        if now < self._next and not has_stopped(job):
            return
        self._next = now + LINE_EVERY
        rate = [] if has_stopped(job) else [f"{self._pace.calls:,.0f}/s", f"{duration(self._pace.left(job))} left"]
        figures = [f"{done(job):,}/{job['total']:,}", _percent(job), *rate, *short_figures(job, self._words)]
        state = job["state"].replace("_", " ")
        self._console.print(f"{state}: {' · '.join(figures)}", markup=False, soft_wrap=True)

    def _say_why(self, message: str, reason: tuple[str, str | None], now: float) -> None:
        """Print the reason when the job begins to wait, and repeat it from time to time."""
        if reason != self._reason or now >= self._next_reason:
            self._reason, self._next_reason = reason, now + REASON_EVERY
            self._console.print(f"waiting: {message}", markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class ReasonView(LineView):
    """Prints only why the job waits, for logs and pipes."""

    def update(self, job: Job) -> None:
        if message := waiting(job):
            self._say_why(message, (job["waiting"]["reason"], job["waiting"]["lane"]), time.monotonic())


class SpinnerView:
    """A spinner while a single page is fetched, with the reason if it waits. It is erased at the end."""

    def __init__(self, console: "Console", words: Words = GENERAL) -> None:
        from rich.status import Status

        self._words = words
        self._status = Status("", console=console)
        self._began = time.monotonic()

    def update(self, job: Job) -> None:
        from rich.text import Text

        what = waiting(job) or f"{self._words.request(job['params'])} ({time.monotonic() - self._began:.0f} s)"
        self._status.update(Text(what))

    def __enter__(self) -> Self:
        self._status.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.__exit__(kind, error, trace)


class NoView:
    def update(self, job: Job) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def choose_view(console: "Console", *, quiet: bool, words: Words = GENERAL) -> ProgressView:
    """Return a bar on a terminal, lines elsewhere, and nothing if `quiet`."""
    if quiet:
        return NoView()
    return BarView(console, words) if console.is_terminal else LineView(console, words)


def choose_spinner(console: "Console", *, quiet: bool, words: Words = GENERAL) -> ProgressView:
    """Return the view for a job of one task: a spinner on a terminal, elsewhere a line only if it waits; nothing if
    `quiet`."""
    if quiet:
        return NoView()
    return SpinnerView(console, words) if console.is_terminal else ReasonView(console, words)


def short_figures(job: Job, words: Words = GENERAL) -> list[str]:
    """Return the figures next to the bar: those of the pipeline, then retries and failures."""
    figures = list(words.progress(job))
    if is_out_of_budget(job):
        figures.append("budget spent")
    if job["retries"]:
        figures.append(some(job["retries"], "retry", "retries"))
    if job["failed"]:
        figures.append(f"{count(job['failed'])} failed")
    return figures


def _percent(job: Job) -> str:
    return f"{100 * done(job) / job['total']:.0f}%" if job["total"] else "100%"
