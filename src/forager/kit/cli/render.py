"""Formats values for display. All functions are pure, except `show_…` and `write`, which write to standard output."""

import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forager.kit.cli.json_text import json_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> "Table":
    """Return a plain table. Columns in `right` are right-aligned (numbers); those in `fold` wrap, the others are
    truncated."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    for name in columns:
        made.add_column(
            name, justify="right" if name in right else "left", overflow="fold" if name in fold else "ellipsis"
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
    return f"${usd:,.2f}" if usd == 0 or abs(usd) >= 1 else f"${usd:.2g}" if abs(usd) < 0.01 else f"${usd:.3f}"


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
