"""Runs plans, each in a process of its own: a fork of one that has loaded everything. Seeds share no state, and what a
seed leaves in memory ends with its process."""

import contextlib
import dataclasses
import importlib
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import orjson

from forager.app.config import new_settings
from forager.core.secret import Secret
from forager.extract.text.locations import state_code
from forager.pipelines.alerts.app_steps import opened
from tests.simulate.plan import Plan, draw
from tests.simulate.run import Result, run
from tests.support.schema_templates import prepare_store

MEMORY = Path("/dev/shm")
PATIENCE = 600.0
"""Real seconds after which a seed is ended: it hangs, or the machine is overloaded."""

Break = Callable[[], None]


class Forks:
    """Use `with forks() as made:`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._empty = folder / "empty"
        self._empty.mkdir()
        prepare_store(new_settings(home=self._empty))
        self._load()

    def _load(self) -> None:
        """Load once what every seed would load for itself: the modules that a first seed has loaded, and tables."""
        warm = next(self._all([draw(0)], 1, None, with_lines=True))
        for name in warm.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        state_code("Arizona", "US")
        opened(Secret("json://127.0.0.1:1/"))

    def one(self, plan: Plan, break_it: Break | None = None, *, with_lines: bool = True) -> Result:
        """Simulate one plan."""
        return next(self.several([plan], 1, break_it, with_lines=with_lines))

    def several(
        self, plans: Iterable[Plan], at_once: int, break_it: Break | None = None, *, with_lines: bool = False
    ) -> Iterator[Result]:
        """Simulate plans, some at once. Yields the results as they come. Without `with_lines`, the trace comes only
        from plans with findings."""
        return self._all(plans, at_once, break_it, with_lines=with_lines)

    def _all(
        self, plans: Iterable[Plan], at_once: int, break_it: Break | None, *, with_lines: bool
    ) -> Iterator[Result]:
        rest = iter(plans)
        running: dict[Connection, _Running] = {}
        try:
            while True:
                while len(running) < at_once and (plan := next(rest, None)) is not None:
                    begun = self._begin(plan, break_it, with_lines=with_lines)
                    running[begun.answer] = begun
                if not running:
                    return
                ready = wait(list(running), timeout=PATIENCE)
                if not ready:
                    raise TimeoutError(
                        f"No seed has ended within {PATIENCE:g} s: {[r.plan.seed for r in running.values()]}"
                    )
                for each in ready:
                    assert isinstance(each, Connection)
                    yield running.pop(each).ended()
        finally:
            for each_running in running.values():
                each_running.kill()

    def _begin(self, plan: Plan, break_it: Break | None, *, with_lines: bool) -> "_Running":
        folder = Path(tempfile.mkdtemp(prefix="seed-", dir=self._folder))
        answer, give = os.pipe()
        child = os.fork()
        if child:
            os.close(give)
            return _Running(plan, child, Connection(answer, writable=False), folder)
        code = 1
        try:
            os.close(answer)
            result = run(plan, folder, self._empty, break_it)
            result.modules = sorted(name for name in sys.modules if name.startswith("forager."))
            if not (with_lines or result.findings):
                result.lines.clear()
            Connection(give, readable=False).send_bytes(orjson.dumps(dataclasses.asdict(result)))
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)


@dataclass
class _Running:
    plan: Plan
    child: int
    answer: Connection
    folder: Path

    def ended(self) -> Result:
        try:
            data: bytes | None = self.answer.recv_bytes()
        except EOFError:
            data = None
        self._clear()
        if data is None:
            return Result(self.plan.seed, findings=["the simulation itself failed: see the lines above"])
        return Result(**orjson.loads(data))

    def kill(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        self._clear()

    def _clear(self) -> None:
        self.answer.close()
        os.waitpid(self.child, 0)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def forks() -> Iterator[Forks]:
    """Everything that the block leaves in a temporary folder, in memory where that exists, is removed after it."""
    folder = Path(tempfile.mkdtemp(prefix="simulate-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        yield Forks(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
