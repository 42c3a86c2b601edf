"""Formats values for display. All functions are pure, except `show_…` and `write`, which write to standard output."""

import codecs
import math
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


# JSON for a text stream, valid in every encoding that a terminal or pipe may have. Pure: the caller writes it.


_NOT_ASCII = re.compile(r"[^\x00-\x7f]")  # in JSON, these characters are in strings only


def json_text(data: Any, stream: TextIO, *, indent: bool = False) -> str:
    """Return the data as JSON for this stream, without a newline at the end.

    Unless the stream is UTF-8, characters other than ASCII are escaped as in JSON (`\\u00e9`). The stream's own escape
    for what it cannot encode (`\\xe9`) is not JSON.
    """
    import orjson

    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return text if _is_utf8(stream) else _NOT_ASCII.sub(_escaped, text)


def _is_utf8(stream: TextIO) -> bool:
    """A stream without an encoding takes every character."""
    encoding = getattr(stream, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def _escaped(character: re.Match[str]) -> str:
    """JSON writes a character beyond the basic plane as the two surrogates of UTF-16."""
    units = character[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


STATE_STYLES = {
    "queued": "cyan",
    "running": "blue",
    "paused": "yellow",
    "completed": "green",
    "partially_completed": "yellow",
    "failed": "red",
    "cancelled": "magenta",
    "skipped": "dim",
}


def show_json(data: Any, *, indent: bool = True) -> None:
    """Write JSON, over several lines or as one line."""
    write(json_text(data, sys.stdout, indent=indent) + "\n")


def write(text: str) -> None:
    """Write exactly this text and flush, so that the reader of a pipe does not wait for a full buffer."""
    sys.stdout.write(text)
    sys.stdout.flush()


def out() -> "Console":
    """Return the console for standard output, which carries results only."""
    from rich.console import Console

    return Console(highlight=False)


def notes() -> "Console":
    """Return the console for standard error: progress and remarks, so that results can be piped."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def busy(what: str) -> AbstractContextManager[object]:
    """Show a status line while the block runs; only on a terminal, and erased afterwards."""
    return notes().status(what) if sys.stderr.isatty() else nullcontext()


NAMES = frozenset({"name", "sink", "site"})
"""Columns with what another command takes as its argument: a cut one could not be copied."""


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> "Table":
    """Return a plain table. Columns in `right` are right-aligned (numbers); those in `fold` and those with names of
    things (`NAMES`) wrap, the others are truncated."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold" if name in fold or name in NAMES else "ellipsis",
        )
    return made


def facts(pairs: Iterable[tuple[str, Any]]) -> "Table":
    """Return a table of names and values in two columns, without unknown values."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None and value != "":
            grid.add_row(name, Text(str(value)) if isinstance(value, str | int | float) else value)
    return grid


def show_next(steps: Iterable[tuple[str, str]]) -> None:
    """Print what to try next: what it does, and its command on a line of its own, to be copied whole."""
    console = out()
    console.print("\n[bold]Next[/]")
    for what, command in steps:
        console.print(f"{what}:", style="dim", markup=False)
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)


def plain(value: Any) -> Any:
    """Escape scraped or user-supplied text, so that it is neither read as markup nor moves the cursor."""
    from rich.text import Text

    if value is None:
        return Text("-", style="dim")
    return Text("".join(char if char.isprintable() else "·" for char in str(value)))


def indented(value: Any) -> Any:
    """Indent a text below the line that it belongs to."""
    from rich.padding import Padding

    text = plain(value)
    text.stylize("dim")
    return Padding(text, (0, 0, 0, 2))


def state(name: str) -> Any:
    from rich.text import Text

    return Text(name.replace("_", " "), style=STATE_STYLES.get(name, ""))


def count(number: int | float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def money(usd: float) -> str:
    """Dollars with enough digits: `$12.50`, and `$0.0003` where two would show nothing."""
    if usd == 0 or abs(usd) >= 1:
        return f"${usd:,.2f}"
    if abs(usd) < 0.0001:
        return f"${usd:.6f}"  # fewer digits would be written with an exponent
    return f"${usd:.2g}" if abs(usd) < 0.01 else f"${usd:.3f}"


def some(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return the text with a full stop, so that another sentence can follow."""
    trimmed = text.rstrip()
    return trimmed if trimmed.endswith((".", "?", "!")) else f"{trimmed}."


def duration(seconds: float | None) -> str:
    if seconds is None or not math.isfinite(seconds):
        return "-"
    if seconds < 60:
        return f"{seconds:.0f} s" if float(seconds).is_integer() else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2])


def age(seconds: float) -> str:
    """Return how long ago a moment was, in one unit: `12 s`, `5 min`, `3 h`, `9 d`."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (unit == "min" and seconds >= 60):
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def relative(value: Any, now: datetime | None = None) -> str:
    """Format a timestamp of the API by its distance from now: `20 min ago`, `in 5 h`; `-` for none."""
    parsed = when(value)
    if parsed is None:
        return "-"
    seconds = (parsed - (now or datetime.now(UTC))).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"in {age(seconds)}" if seconds > 0 else f"{age(-seconds)} ago"


def planned(value: Any, now: datetime | None = None) -> str:
    """Format a planned moment by its distance from now: `in 5 h`, or `due` once it has come; `-` for none."""
    parsed = when(value)
    if parsed is not None and parsed <= (now or datetime.now(UTC)):
        return "due"
    return relative(value, now)


def moment(value: Any) -> str:
    """Format a timestamp of the API (ISO 8601) to the second, in UTC."""
    parsed = when(value)
    return "-" if parsed is None else parsed.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def when(value: Any) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value / 1000, UTC)
    return datetime.fromisoformat(str(value))


def near(path: Path) -> str:
    """Return the shortest spelling of a path from the current folder."""
    shorter = os.path.relpath(path)
    return shorter if len(shorter) < len(str(path)) else str(path)


def program() -> str:
    """Return how to call this program: by name, or by path if it is not on the PATH."""
    if shutil.which("forager"):
        return "forager"
    beside = Path(sys.executable).parent / "forager"
    return near(beside) if beside.exists() else "python -m forager"


# Texts that the command line uses for a pipeline's jobs: their requests, results and costs. A feature declares its own
# `Words`.
#
# A pipeline that declares none is described in general terms: tasks, records, and credits if it spent any.


Job = Mapping[str, Any]
Figures = Iterable[tuple[str, Any]]


def spent_with_assumed(job: Job) -> str:
    """Format the units spent, and how many of them are assumed because the answer, and so the price, was lost."""
    return f"{count(job['spent'])} spent" + assumed(job)


def assumed(job: Job) -> str:
    return f" ({count(job['guessed'])} assumed: their answers were lost)" if job["guessed"] else ""


def answered(job: Job) -> str:
    return f"{count(job['completed'])} completed of {count(job['total'])}"


def found(job: Job) -> str:
    """Format the records of a job, and how many of them no job had found before. Records that all jobs share count
    only when they are new."""
    new = f"{count(job['discoveries'])} new"
    return f"{count(job['records'])}, {new}" if job["records"] else new


def _request(params: Mapping[str, Any]) -> str:
    given = [f"{name}={value}" for name, value in params.items() if value not in (None, False)]
    return ", ".join(given[:3])


def _results(job: Job) -> Figures:
    return [
        ("tasks", answered(job)),
        ("records", found(job)),
        ("credits", spent_with_assumed(job) if job["spent"] else None),
        ("skipped", count(job["skipped"]) if job["skipped"] else None),
    ]


def credits_of(amount: int) -> str:
    return some(amount, "credit")


def _progress(job: Job) -> Iterable[str]:
    if job["spent"]:
        yield credits_of(job["spent"])
    if job["skipped"]:
        yield f"{count(job['skipped'])} skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Display texts of a pipeline. Every field is optional."""

    task: tuple[str, str] = ("task", "tasks")
    """Singular and plural for a task: query, queries."""
    request: Callable[[Mapping[str, Any]], str] = _request
    """Short description of a job's request, made from its parameters."""
    results: Callable[[Job], Figures] = _results
    """Results and costs of a job as names and values; None is left out."""
    progress: Callable[[Job], Iterable[str]] = _progress
    """Short figures next to the progress bar."""
    cost: Callable[[int], str] = credits_of
    """An amount that the job has spent, or may spend: `12 credits`, `12 pages`, `$0.012`."""
    retry: str = "forager jobs retry {job}"
    """The command that runs the failed tasks of a job again."""

    def tasks(self, number: int) -> str:
        """`1 query`, `2 queries`."""
        return some(number, *self.task)


GENERAL = Words()


# Shows what a command is doing before there is a job to follow: a status line on a terminal, elsewhere a line from time
# to time.


LINE_EVERY = 5.0
LOOK_EVERY = 0.1
"""Seconds between two updates of a status line: more often would only cost time."""


Show = Callable[[str], None]


@contextmanager
def activity(*, quiet: bool = False) -> Iterator[Show]:
    """Yield a function that shows a text. The status line is erased at the end; with `quiet` nothing is shown."""
    if quiet:
        yield lambda _: None
        return
    console = notes()
    if console.is_terminal:
        with console.status("") as status:
            yield _now_and_then(lambda text: status.update(plain(text)), LOOK_EVERY, first=True)
    else:
        yield _now_and_then(lambda text: console.print(text, markup=False, soft_wrap=True), LINE_EVERY, first=False)


def _now_and_then(show: Show, every: float, *, first: bool) -> Show:
    """Pass on a text if the last one is at least `every` seconds old; `first`: the first one at once."""
    due = time.monotonic() + (0.0 if first else every)

    def maybe(text: str) -> None:
        nonlocal due
        if (now := time.monotonic()) >= due:
            due = now + every
            show(text)

    return maybe
