"""Measures the simulation of the whole application: simulated seconds per second, and the broken builds that it finds.

It must never count a seed with findings as simulated: such a seed fails the benchmark. `--quick` runs fewer seeds.
"""

import json
import os
import sys

from tests.simulate.__main__ import caught_at
from tests.simulate.broken import BUILDS, WITHIN
from tests.simulate.forks import forks
from tests.simulate.plan import draw

SPEED = 300.0


def main(arguments: list[str]) -> int:
    seeds = 20 if "--quick" in arguments else 100
    simulated = cpu = 0.0
    findings: dict[int, list[str]] = {}
    with forks() as made:
        for result in made.several((draw(seed) for seed in range(1, seeds + 1)), 1):
            simulated += result.simulated
            cpu += result.cpu
            if result.findings:
                findings[result.seed] = result.findings
        caught = {name: result.seed for name, result in caught_at(made, BUILDS, os.cpu_count() or 1)}
    speed = simulated / cpu
    sys.stdout.write(f"{seeds} seeds, {simulated:,.0f} simulated seconds in {cpu:.1f} s of one processor\n")
    sys.stdout.writelines(f"  {name}: caught at seed {seed} of at most {WITHIN}\n" for name, seed in caught.items())
    sys.stdout.writelines(f"  seed {seed}: {lines[0][:300]}\n" for seed, lines in findings.items())
    ok = speed >= SPEED and len(caught) == len(BUILDS) and not findings
    figures = {"name": "simulate", "ok": ok, "speed": round(speed), "caught": len(caught), "findings": len(findings)}
    sys.stdout.write(json.dumps(figures) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
