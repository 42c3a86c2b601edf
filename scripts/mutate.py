"""Check that the tests notice defects: `make mutate NAME=core`. Writes a section of docs/contributing/mutation.md.

A mutant is the code with one small defect (`scripts/mutants.py`). It is killed if a test fails, or no longer ends. The
tests of an area are collected once and run once, which shows the functions that each of them enters. Then a sample of
mutants is drawn by a seed; each runs in a fork of the process that has collected everything, with the defect put into
the function in place, and with the tests that enter this function, the fastest first, until one fails.

A survivor is explained in `scripts/mutants_explained.toml`, or it is a test that is missing. Prints one JSON object as
its last line, and exits with 1 if fewer than 90 % of the mutants that could make a difference were killed.
"""

import argparse
import fnmatch
import gc
import json
import os
import random
import re
import select
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from types import CodeType, FunctionType
from typing import Any

import pytest

from scripts.mutants import Mutant, mutants, mutated

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "contributing" / "mutation.md"
EXPLAINED = ROOT / "scripts" / "mutants_explained.toml"
SOURCE = "src/forager"
WANTED = 0.9
SIZE = "not chaos and not servers"
NO_SERVERS = f"{SIZE} and not postgres"
MOST_SECONDS = 60.0
"""Seconds of tests, as they take without a defect, that one mutant is given."""
MOST_TESTS = 150

Place = tuple[str, str, int]
"""A function: its file, its qualified name, its first line."""


@dataclass(frozen=True)
class Area:
    """A part of the source, and the tests that are meant to notice its defects."""

    about: str
    files: Sequence[str]
    """Patterns of paths below src/forager."""
    tests: Sequence[str]
    without: Sequence[str] = ()
    needs_postgres: bool = False


_LEDGER_TESTS = ("tests/contract/test_ledger_*.py", "tests/contract/engine", "tests/property/test_ledger_machine.py")
_EDGES = (
    *("feature settings wiring prepare dispatch scrape_schedule app_steps reports* access checks coverage".split()),
    *("page api* cli* price log loop sink mirror publication indexed webhook_results demo showcase migrations".split()),
)
"""Names of the files and folders of a pipeline that are not pure, as the import rules have them."""
AREAS = {
    "core": Area(
        "nouns and seams",
        ("core/*",),
        ("tests/unit", "tests/property", *_LEDGER_TESTS, "tests/contract/test_blobs.py"),
    ),
    "ledger": Area(
        "the SQLite ledger, and the rules that both stores share",
        ("ledger/sqlite/*", "ledger/rules/*", "ledger/tables/*"),
        (
            *("tests/unit", *_LEDGER_TESTS, "tests/contract/test_sqlite_*.py", "tests/contract/test_change_numbers.py"),
            *("tests/contract/test_retention.py", "tests/contract/test_proxy_table.py", "tests/contract/test_gate.py"),
            *(
                "tests/contract/test_rulebook.py",
                "tests/contract/test_key_rotation.py",
                "tests/contract/test_archive.py",
            ),
            *("tests/contract/sinks/test_contract.py", "tests/contract/api"),
        ),
    ),
    "postgres": Area(
        "the PostgreSQL ledger",
        ("ledger/postgres/*",),
        (*_LEDGER_TESTS, "tests/contract/test_postgres_*.py", "tests/contract/test_change_numbers.py"),
        needs_postgres=True,
    ),
    "engine": Area(
        "the loops and the lanes",
        ("engine/*",),
        (
            "tests/unit",
            "tests/property",
            "tests/contract/engine",
            "tests/contract/deliveries",
            "tests/contract/test_ledger_*.py",
        ),
    ),
    "guard": Area(
        "the egress guard",
        ("fetch/guard.py",),
        ("tests/unit/test_guard.py",),
    ),
    "pipelines": Area(
        "the pure files of the pipelines",
        ("pipelines/*",),
        (
            "tests/unit",
            "tests/property",
            "tests/pipelines",
            "tests/contract/sites",
            "tests/contract/alerts",
            "tests/contract/web",
        ),
        without=_EDGES,
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutate", description="Check that the tests notice defects.")
    parser.add_argument("area", choices=sorted(AREAS))
    parser.add_argument("--sample", type=int, default=200, help="mutants to draw (default 200; 0: all)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="mutants at once (processors)")
    parser.add_argument("--only", help="only mutants whose line in the report contains this text")
    parser.add_argument("--dry", action="store_true", help="leave docs/contributing/mutation.md as it is")
    given = parser.parse_args(arguments)
    area = AREAS[given.area]
    drawn = draw(area, given.sample, given.seed, given.only)
    run = Run(area, drawn, given.at_once)
    with ExitStack() as stack:
        if area.needs_postgres:
            from tests.support.postgres import OWN_SERVER, running_postgres

            os.environ[OWN_SERVER] = stack.enter_context(running_postgres()).url("postgres")
        size = SIZE if area.needs_postgres else NO_SERVERS
        tests = [each for pattern in area.tests for each in _matching(pattern)]
        options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-m", size, *tests]
        code = pytest.main(options, plugins=[run])
    if code or not run.results:
        return int(code) or 1
    return report(given.area, area, run, whole=given.sample == 0, write=not (given.dry or given.only))


def _matching(pattern: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern)) if "*" in pattern else [pattern]


def files_of(area: Area) -> list[Path]:
    """Return the files of an area."""
    base = ROOT / SOURCE
    found = []
    for path in sorted(base.rglob("*.py")):
        name = str(path.relative_to(base))
        if any(fnmatch.fnmatch(name, pattern) for pattern in area.files):
            parts = [part.removesuffix(".py") for part in Path(name).parts]
            if not any(fnmatch.fnmatch(part, edge) for part in parts for edge in area.without):
                found.append(path)
    return found


def draw(area: Area, sample: int, seed: int, only: str | None = None) -> list[Mutant]:
    """Return a sample of the mutants of an area, in the order of files and lines."""
    every = [
        mutant
        for path in files_of(area)
        for mutant in mutants(str(path.relative_to(ROOT / SOURCE)), path.read_text("utf-8"))
    ]
    if only is not None:
        every = [mutant for mutant in every if only in str(mutant)]
    if not sample or sample >= len(every):
        return every
    chosen = random.Random(seed).sample(range(len(every)), sample)
    return [every[place] for place in sorted(chosen)]


# ── which tests enter which function ──


@dataclass
class Seen:
    """What one test does without a defect."""

    seconds: float
    passed: bool
    places: set[Place]


class Recorder:
    """Records the functions of some files that are entered, in all threads."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = {str(path) for path in files}
        self._known: dict[CodeType, Place | None] = {}
        self.places: set[Place] = set()

    def start(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        try:
            place = self._known[code]
        except KeyError:
            inside = code.co_filename in self._files
            place = (code.co_filename, code.co_qualname, code.co_firstlineno) if inside else None
            self._known[code] = place
        if place is not None:
            self.places.add(place)


class Failures:
    """A pytest plug-in that counts failed tests."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.count += report.failed


@dataclass
class Run:
    """A pytest plug-in that runs mutants in place of the tests."""

    area: Area
    drawn: Sequence[Mutant]
    at_once: int
    results: dict[Mutant, str] = field(default_factory=dict)
    tests: int = 0
    seconds: float = 0.0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("The tests could not be collected.")
        began = time.monotonic()
        items = session.items
        failures = Failures()
        session.config.pluginmanager.register(failures)
        seen = self._look(items, failures)
        by_place: dict[Place, list[int]] = {}
        for number, each in seen.items():
            if each.passed:
                for place in each.places:
                    by_place.setdefault(place, []).append(number)
        self.tests = len(seen)
        _say(f"{len(seen)} tests, {sum(not each.passed for each in seen.values())} of them left out: they fail or skip")
        jobs = []
        for mutant in self.drawn:
            file = str(ROOT / SOURCE / mutant.path)
            chosen = sorted(by_place.get((file, mutant.function, mutant.first_line), ()), key=lambda n: seen[n].seconds)
            jobs.append((mutant, [*_within(chosen, seen)]))
        self._kill(jobs, items, seen, failures)
        self.seconds = time.monotonic() - began
        return True

    def _look(self, items: Sequence[pytest.Item], failures: Failures) -> dict[int, Seen]:
        """Run every test once, in forks that share the files, and return what each has entered."""
        files = list(dict.fromkeys(item.path for item in items))
        share = {path: number % self.at_once for number, path in enumerate(files)}
        recorder = Recorder(files_of(self.area))
        with tempfile.TemporaryDirectory() as folder:
            children = []
            for number in range(self.at_once):
                child = os.fork()
                if not child:
                    _leave(lambda mine=number: self._look_at(items, share, mine, recorder, failures, Path(folder)))
                children.append(child)
            for child in children:
                os.waitpid(child, 0)
            seen = {}
            for path in Path(folder).iterdir():
                for number, seconds, passed, places in json.loads(path.read_text()):
                    seen[number] = Seen(seconds, passed, {(file, name, line) for file, name, line in places})
        return seen

    def _look_at(
        self,
        items: Sequence[pytest.Item],
        share: Mapping[Path, int],
        mine: int,
        recorder: Recorder,
        failures: Failures,
        folder: Path,
    ) -> int:
        own = [number for number, item in enumerate(items) if share[item.path] == mine]
        found = []
        reports = Reports()
        items[0].config.pluginmanager.register(reports)
        for place, number in enumerate(own):
            following = items[own[place + 1]] if place + 1 < len(own) else None
            recorder.places = set()
            reports.passed = False
            had, began = failures.count, time.monotonic()
            recorder.start()
            try:
                items[number].config.hook.pytest_runtest_protocol(item=items[number], nextitem=following)
            finally:
                recorder.stop()
            good = failures.count == had and reports.passed
            found.append((number, time.monotonic() - began, good, sorted(recorder.places)))
        (folder / str(mine)).write_text(json.dumps(found))
        return 0

    def _kill(
        self,
        jobs: Sequence[tuple[Mutant, list[int]]],
        items: Sequence[pytest.Item],
        seen: Mapping[int, Seen],
        failures: Failures,
    ) -> None:
        waiting, running = list(reversed(jobs)), dict[int, tuple[Mutant, float, int]]()
        while waiting or running:
            while waiting and len(running) < self.at_once:
                mutant, tests = waiting.pop()
                if not tests:
                    self.results[mutant] = "no test enters it"
                    continue
                child = os.fork()
                if not child:
                    os.setsid()
                    _leave(lambda m=mutant, t=tests: _try(m, [items[n] for n in t], failures))
                patience = 20.0 + 4 * sum(seen[n].seconds for n in tests)
                running[os.pidfd_open(child)] = (mutant, time.monotonic() + patience, child)
            ready, _, _ = select.select(list(running), [], [], 0.5)
            for handle, (mutant, until, child) in list(running.items()):
                if handle not in ready and time.monotonic() < until:
                    continue
                if handle not in ready:
                    os.killpg(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                os.close(handle)
                del running[handle]
                code = os.waitstatus_to_exitcode(status)
                self.results[mutant] = (
                    "timed out" if handle not in ready else {0: "survived", 3: "skipped"}.get(code, "killed")
                )
                if self.results[mutant] == "survived":
                    _say(f"survived: {mutant}")
            done = len(self.results)
            if done and done % 50 == 0:
                _say(f"{done} of {len(jobs)}")


class Reports:
    """A pytest plug-in that notes whether the body of a test has passed."""

    passed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.passed = report.passed


def _within(tests: Sequence[int], seen: Mapping[int, Seen]) -> Iterator[int]:
    total = 0.0
    for number in tests[:MOST_TESTS]:
        total += seen[number].seconds
        if total > MOST_SECONDS:
            return
        yield number


def _leave(work: Any) -> None:
    """Do the work of a fork, quietly, and end it without what its parent would do at its end."""
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = work()
    finally:
        os._exit(code)


def _try(mutant: Mutant, tests: Sequence[pytest.Item], failures: Failures) -> int:
    """Put the defect in place and run the tests until one fails. Returns 1 if one did, 3 if it has no place."""
    gc.unfreeze()  # the tests have frozen what they loaded, and what is frozen is not listed
    if not put_in_place(mutant):
        return 3
    for place, item in enumerate(tests):
        following = tests[place + 1] if place + 1 < len(tests) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if failures.count:
            return 1
    return 0


def put_in_place(mutant: Mutant) -> bool:
    """Give the loaded function, and those made inside it, the code of the mutant."""
    path = ROOT / SOURCE / mutant.path
    try:
        code = mutated(mutant, path.read_text("utf-8"), str(path))
    except SyntaxError:
        return False
    fresh = {(each.co_qualname, each.co_firstlineno): each for each in _all_codes(code)}
    found = False
    for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
        old = function.__code__
        new = fresh.get((old.co_qualname, old.co_firstlineno))
        if new is not None and old.co_filename == str(path) and new.co_freevars == old.co_freevars:
            function.__code__ = new
            found = True
    return found


def _all_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_codes(constant)


# ── the report ──


def explanations() -> dict[str, str]:
    """Return why a survivor changes nothing that a test could see, by the name of the survivor (`named`)."""
    if not EXPLAINED.exists():
        return {}
    rows = tomllib.loads(EXPLAINED.read_text("utf-8"))["mutant"]
    return {row["where"]: row["why"] for row in rows}


def named(mutant: Mutant) -> str:
    """Return the name by which a survivor is explained: it holds after lines have moved."""
    return f"{mutant.path} {mutant.function}: {mutant.what}"


def report(name: str, area: Area, run: Run, *, whole: bool, write: bool) -> int:
    why = explanations()
    counted = Counter(run.results.values())
    tried = [each for each, result in run.results.items() if result != "skipped"]
    left = [each for each in tried if run.results[each] in ("survived", "no test enters it")]
    unexplained = [each for each in left if named(each) not in why]
    matter = len(tried) - (len(left) - len(unexplained))
    killed = counted["killed"] + counted["timed out"]
    share = killed / matter if matter else 0.0
    for each in left:
        _say(f"{run.results[each]}: {each}{f' ({why[named(each)]})' if named(each) in why else ''}")
    section = _section(name, area, run, len(tried), killed, left, why, share, whole=whole)
    if write:
        PAGE.write_text(with_section(PAGE.read_text("utf-8"), name, section), encoding="utf-8")
    figures = {"name": f"mutate {name}", "ok": share >= WANTED, "mutants": len(tried), "killed": killed}
    _say(json.dumps({**figures, "explained": len(left) - len(unexplained), "share": round(share, 3)}))
    return 0 if share >= WANTED else 1


def _section(
    name: str,
    area: Area,
    run: Run,
    tried: int,
    killed: int,
    left: Sequence[Mutant],
    why: Mapping[str, str],
    share: float,
    *,
    whole: bool,
) -> str:
    explained = [each for each in left if named(each) in why]
    figures = (
        f"`make mutate NAME={name}`: {tried:,} mutants ({'all' if whole else 'a sample by seed'}), {killed:,} killed,"
        f" {len(explained)} explained, {len(left) - len(explained)} survived: **{share:.1%}** of those that matter."
        f" {run.tests:,} tests, {run.seconds / 60:.0f} min."
    )
    lines = [f"## {name}: {area.about}", "", *wrap(figures, 120)]
    if left:
        lines += ["", "| survivor | why |", "|---|---|"]
        for each in left:
            reason = why.get(named(each)) or (
                "a test is missing" if run.results[each] == "survived" else "no test enters it"
            )
            lines.append(f"| `{_cell(str(each))}` | {_cell(reason)} |")
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'")


def with_section(page: str, name: str, section: str) -> str:
    """Return the page with the section of an area replaced, or added at the end."""
    pattern = re.compile(rf"^## {re.escape(name)}: .*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(page):
        return pattern.sub(lambda _: f"{section}\n", page).rstrip() + "\n"
    return f"{page.rstrip()}\n\n{section}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
