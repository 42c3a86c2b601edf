"""Ends a benchmark: prints a table of its figures against its targets, then one JSON object as the last line.

A target per second or in seconds decides only on a quiet machine; ratios, shares, CPU time and memory always decide.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.support.machine import Machine


@dataclass(frozen=True, slots=True)
class Target:
    key: str
    at_least: float | None = None
    at_most: float | None = None
    quiet_only: bool = False
    """A figure of speed: on a busy machine it describes the machine more than Forager."""

    def held_by(self, figure: float | None) -> bool:
        if figure is None:
            return False
        return (self.at_least is None or figure >= self.at_least) and (self.at_most is None or figure <= self.at_most)

    def __str__(self) -> str:
        return f"≥ {self.at_least:,g}" if self.at_least is not None else f"≤ {self.at_most:,g}"


def conclude(name: str, figures: Mapping[str, Any], targets: Sequence[Target], machine: Machine) -> None:
    """Print the verdict. A target whose figure was not measured has not held."""
    print(f"\nmachine: {machine.describe()}")
    decided = [target for target in targets if machine.quiet or not target.quiet_only]
    rows, ok = [], bool(decided)
    for target in targets:
        figure = figures.get(target.key)
        held, counts = target.held_by(figure), target in decided
        ok = ok and (held or (figure is not None and not counts))
        said = ("held" if held else "not measured" if figure is None else "MISSED") + (
            "" if counts else ", not decisive"
        )
        rows.append((target.key, "—" if figure is None else f"{figure:,g}", str(target), said))
    print_table(("figure", "measured", "target", "verdict"), rows)
    if len(decided) < len(targets):
        print("the machine was busy: ratios and CPU time decide, figures per second do not")
    else:
        print("every target decides" + (": the machine was quiet" if machine.quiet else ""))
    rest = {"machine": "quiet" if machine.quiet else "busy", "core_share": round(machine.share, 3)}
    outcomes = {
        target.key: {"is": str(target), "held": target.held_by(figures.get(target.key)), "decides": target in decided}
        for target in targets
    }
    print(json.dumps({"name": name, "ok": ok, **figures, **rest, "targets": outcomes}), flush=True)


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    lines = [tuple(map(str, head)), *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    print()
    for number, line in enumerate(lines):
        cells = [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        print("  ".join(cells))
        if number == 0:
            print("  ".join("─" * width for width in widths))
    print(flush=True)
