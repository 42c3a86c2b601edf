"""The progress of `forager demo`: one bar for each pipeline on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from forager.sdk.cli import progress
from forager.sdk.cli.render import Job, Words, duration, plain
from forager.sdk.cli.showcase import Showcase

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

LINE_EVERY = 2.0
COUNTED = ("total", "completed", "failed", "skipped", "cancelled", "retries", "spent", "running", "queued")


class PipelineRow:
    """The state of one pipeline in the demo: its jobs, its pace, and the newest thing that it found."""

    def __init__(self, part: Showcase) -> None:
        self.part = part
        self.looks: list[list[Job]] = []
        """Jobs by look, in the state of the last poll."""
        self.ids: list[str] = []
        """Jobs of the present look."""
        self.now = "starting"
        self.is_done = False
        self._pace = progress.JobSpeed()

    def note(self, jobs: Sequence[Job], at: float) -> None:
        """Take the newest state of the jobs of the present look."""
        self.looks[-1] = list(jobs)
        self._pace.note(self.total(), at)

    def total(self) -> dict[str, Any]:
        """Return the counters of all jobs so far, as those of one job."""
        jobs = [job for look in self.looks for job in look]
        sums = {name: sum(int(job[name] or 0) for job in jobs) for name in COUNTED}
        return {**sums, "max_cost": None, "lane_rate": None, "state": "completed" if self.is_done else "running"}

    @property
    def rate(self) -> float:
        return self._pace.calls

    def left(self) -> float | None:
        return None if self.is_done else self._pace.left(self.total())

    @property
    def words(self) -> Words:
        return self.part.words


class DemoView:
    """Shows all rows and one line about the worker. Without a terminal, prints a line every two seconds."""

    def __init__(self, console: "Console | None", rows: Sequence[PipelineRow]) -> None:
        self._console = console
        self._rows = rows
        self._live: Any = None
        self._next_line = time.monotonic() + LINE_EVERY
        self.headline = "starting"

    def __enter__(self) -> Self:
        if self._console is not None and self._console.is_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=8, get_renderable=self._drawn)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
        elif error is None:
            self.update(now=True)

    def say(self, message: str, *, style: str = "") -> None:
        """Print a line that stays: above the bars, or among the lines."""
        if self._console is not None:
            self._console.print(message, style=style, markup=False, soft_wrap=True)

    def update(self, *, now: bool = False) -> None:
        """Print a progress line if one is due and output is not a terminal. A terminal redraws by itself."""
        if self._console is None or self._live is not None or (time.monotonic() < self._next_line and not now):
            return
        self._next_line = time.monotonic() + LINE_EVERY
        parts = [f"{row.part.title} {figures(row)['done']}" for row in self._rows]
        self._console.print(f"{self.headline}: {' · '.join(parts)}", markup=False, soft_wrap=True)

    def _drawn(self) -> "RenderableType":
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1), expand=True)
        for width in (9, 22):
            grid.add_column(width=width, min_width=width, no_wrap=True)
        for width in (15, 7, 12, 9):
            grid.add_column(width=width, min_width=width, justify="right", no_wrap=True)
        grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        for row in self._rows:
            counted, shown = row.total(), figures(row)
            bar = ProgressBar(
                total=max(1, counted["total"]), completed=progress.done(counted), pulse=not counted["total"], width=22
            )
            name = Text(row.part.title, style="bold green" if row.is_done else "bold")
            now = plain(shown["now"])
            now.stylize("dim")
            grid.add_row(name, bar, shown["done"], shown["rate"], shown["cost"], shown["left"], now)
        return Group(grid, Text(self.headline, style="cyan"))


def figures(row: PipelineRow) -> Mapping[str, str]:
    """Return the texts of one row: done, rate, cost, time left, and what happens now."""
    counted = row.total()
    look = f" look {len(row.looks)}/{row.part.looks}" if row.part.looks > 1 else ""
    ended = progress.done(counted)
    share = f"{100 * ended / counted['total']:.0f}%" if counted["total"] else "0%"
    return {
        "done": f"{ended:,}/{counted['total']:,} {share}",
        "rate": "" if row.is_done else f"{row.rate:,.0f}/s",
        "cost": row.words.cost(counted["spent"]) if counted["spent"] else "no cost",
        "left": "done" if row.is_done else f"{duration(_whole(row.left()))} left",
        "now": f"{row.now}{look}" if row.is_done else f"{look.strip()} {row.now}".strip(),
    }


def _whole(seconds: float | None) -> float | None:
    return None if seconds is None else float(round(seconds))
