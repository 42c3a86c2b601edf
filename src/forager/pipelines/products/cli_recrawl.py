"""The option `--recrawl`, and how often a shop is crawled."""

import typer

from forager.core.durations import seconds_with_unit
from forager.kit.cli import render
from forager.pipelines.products.recrawl import DAY


def seconds(text: str) -> int:
    """Return `6h` as seconds. Raises `BadParameter` for a time without a unit, and for anything else."""
    try:
        return round(seconds_with_unit(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--recrawl") from None


def every(frequency: int | None) -> str:
    """Format a crawl frequency in seconds, such as `every 6 h`; None is the default, a day."""
    return f"every {render.duration(frequency or DAY)}"
