"""`make simulate SEEDS=1000`: simulates the whole application, and compares all sides after each seed.

Exit code 1: a seed has findings, which are printed with the shortest trace.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable

from tests.simulate.broken import BUILDS, CAUGHT_BEFORE, WITHIN
from tests.simulate.forks import Forks, forks
from tests.simulate.plan import draw
from tests.simulate.run import Result
from tests.simulate.shrink import shrink

LINES = 80


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1_000, help="seeds to simulate (default 1000)")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed (default 1)")
    parser.add_argument("--seed", type=int, help="simulate this seed alone, and print its trace")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="seeds at once (default: processors)")
    parser.add_argument("--broken", choices=sorted(BUILDS), help="use a broken build, which must be caught")
    parser.add_argument("--no-shrink", action="store_true", help="report seeds that fail, without the shortest plan")
    parser.add_argument(
        "--controls", action="store_true", help=f"check that each broken build is caught within {WITHIN}"
    )
    given = parser.parse_args(arguments)
    with forks() as made:
        if given.seed is not None:
            return one(made, given.seed, given.broken)
        if given.controls:
            return controls(made, given.at_once)
        seeds = range(given.first, given.first + given.seeds)
        return many(made, seeds, given.at_once, given.broken, shrinks=not given.no_shrink)


def one(made: Forks, seed: int, broken: str | None) -> int:
    plan, break_it = draw(seed), BUILDS.get(broken or "")
    result = made.one(plan, break_it)
    say(f"seed {seed}, the plan:\n{plan}\n", *result.lines, "", _in_words(result), f"trace hash {result.digest}")
    return _explained(made, result, broken) if result.findings else 0


def many(made: Forks, seeds: range, at_once: int, broken: str | None, *, shrinks: bool = True) -> int:
    began, totals, fired, lives = time.monotonic(), Counter[str](), Counter[str](), 0
    simulated, cpu, failed = 0.0, 0.0, list[Result]()
    plans = (draw(seed) for seed in seeds)
    for number, result in enumerate(made.several(plans, at_once, BUILDS.get(broken or "")), 1):
        totals.update(result.facts)
        fired.update(result.fired)
        lives += result.lives
        simulated += result.simulated
        cpu += result.cpu
        if result.findings:
            failed.append(result)
            say(f"seed {result.seed} FAILED: {result.findings[0][:300]}")
        if number % 100 == 0:
            say(f"{number} seeds, {len(failed)} failed, {simulated / (time.monotonic() - began):.0f} simulated s/s")
        if len(failed) >= 5 and shrinks:
            break
    seconds = time.monotonic() - began
    say(
        f"{len(seeds)} seeds from {seeds.start}: {len(failed)} with findings; {simulated:,.0f} simulated seconds in"
        f" {seconds:.1f} s: {simulated / seconds:.0f} per second with {at_once} at once,"
        f" {simulated / cpu:.0f} per second of one processor; {lives} processes",
        f"faults: {', '.join(f'{count} {name}' for name, count in sorted(fired.items()))}",
        f"work: {', '.join(f'{count} {name}' for name, count in sorted(totals.items()))}",
    )
    if failed and shrinks:
        return _explained(made, min(failed, key=lambda each: each.seed), broken)
    return int(bool(failed))


def controls(made: Forks, at_once: int) -> int:
    """Count the seeds that each broken build needs. Returns 1 if one is not caught."""
    caught = dict(caught_at(made, BUILDS, at_once))
    for name in BUILDS:
        found = caught.get(name)
        say(
            f"{name}: not caught within {WITHIN} seeds"
            if found is None
            else f"{name}: caught at seed {found.seed}: {found.findings[0][:200]}"
        )
    return int(len(caught) < len(BUILDS))


def caught_at(made: Forks, builds: Iterable[str], at_once: int) -> Iterable[tuple[str, Result]]:
    """Yield the first result with findings of each broken build that is caught."""
    for name in builds:
        seeds = sorted(range(1, WITHIN + 1), key=lambda seed: seed not in CAUGHT_BEFORE[name])
        for result in made.several(map(draw, seeds), at_once, BUILDS[name]):
            if result.findings:
                yield name, result
                break


def _explained(made: Forks, failed: Result, broken: str | None) -> int:
    """Print the shortest plan that fails in the same way, with its trace."""
    break_it = BUILDS.get(broken or "")
    say(f"\nshrinking seed {failed.seed} …")
    plan, result = shrink(draw(failed.seed), failed, lambda smaller: made.one(smaller, break_it))
    say(f"the shortest plan that fails in this way:\n{plan}", "", *result.lines[-LINES:], "", *result.findings)
    say(f"\nsee it again: make simulate SEED={failed.seed}{f' ARGS=--broken={broken}' if broken else ''}")
    return 1


def _in_words(result: Result) -> str:
    return (
        f"{result.simulated:.0f} simulated seconds in {result.cpu:.2f} s, {result.steps} steps,"
        f" {result.lives} processes, faults {result.fired}, work {result.facts}, findings {result.findings or 'none'}"
    )


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
