"""SIGTERM at the very beginning of `up` and `worker`, and of a child that was just restarted: exit code 0."""

import contextlib
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forager.cli.supervise import BEAT_FD
from tests.acceptance.test_cli import PATIENCE, Machine, until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

TERM_BIT = 1 << (signal.SIGTERM - 1)
Moment = Callable[[Machine, int], bool]


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path, tmp_path_factory.getbasetemp() / "bytecode")


def child_of(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            return int(child)
    return None


def catches_sigterm(pid: int | None) -> bool:
    """Return whether the process has a handler for SIGTERM, according to the kernel."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) & TERM_BIT)
    return False


def has_begun(pid: int | None) -> bool:
    """Return whether a child runs its own program. Between fork and exec it is a copy of its parent, which has the
    parent's handlers: a signal that it gets then is lost."""
    with contextlib.suppress(OSError):
        return f"{BEAT_FD}=".encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def has_loaded(pid: int | None, library: str) -> bool:
    with contextlib.suppress(OSError):
        return library in Path(f"/proc/{pid}/maps").read_text()
    return False


def has_handler_of_its_own(pid: int | None) -> bool:
    return has_begun(pid) and catches_sigterm(pid)


MOMENTS: dict[str, Moment] = {
    "the parent has a handler": lambda _, pid: catches_sigterm(pid),
    "the parent imports": lambda _, pid: has_loaded(pid, "pydantic_core"),
    "the child was started": lambda _, pid: child_of(pid) is not None,
    "the child has a handler": lambda _, pid: has_handler_of_its_own(child_of(pid)),
    "the child imports": lambda _, pid: has_begun(child_of(pid)) and has_loaded(child_of(pid), "pydantic_core"),
    "the child has its event loop": lambda _, pid: has_begun(child_of(pid)) and has_loaded(child_of(pid), "uvloop"),
    "the store exists": lambda machine, _: (machine.home / "ledger.db").exists(),
}


def is_there(process: "subprocess.Popen[str]", moment: Callable[[], bool]) -> bool:
    assert process.poll() is None, "it has ended by itself"
    return moment()


BETWEEN = {"the parent imports", "the child was started", "the child imports"}
"""`worker` and a restarted child pass these moments with the same code as `up`: theirs are left to `make chaos`."""


def less(moment: str) -> object:
    return pytest.param(moment, marks=[pytest.mark.chaos] if moment in BETWEEN else [])


@pytest.mark.parametrize("moment", MOMENTS)
def test_sigterm_while_up_starts_ends_with_0__R4(machine: Machine, moment: str) -> None:
    ends_with_0(machine, "up", moment)


@pytest.mark.parametrize("moment", [less(moment) for moment in MOMENTS])
def test_sigterm_while_a_worker_starts_ends_with_0__R4(machine: Machine, moment: str) -> None:
    ends_with_0(machine, "worker", moment)


def ends_with_0(machine: Machine, command: str, moment: str) -> None:
    with machine.started(command) as process:
        until(partial(is_there, process, partial(MOMENTS[moment], machine, process.pid)))
        process.terminate()
        assert process.wait(PATIENCE) == 0, machine.said


@pytest.mark.parametrize("moment", [less(moment) for moment in MOMENTS if "child" in moment])
def test_sigterm_after_the_child_was_restarted_ends_with_0__R4(machine: Machine, moment: str) -> None:
    with machine.started("up") as process:
        first = machine.until_up().pid
        os.kill(first, signal.SIGKILL)
        until(partial(is_there, process, lambda: child_of(process.pid) not in (None, first)))
        until(partial(is_there, process, partial(MOMENTS[moment], machine, process.pid)))
        process.terminate()
        assert process.wait(PATIENCE) == 0, machine.said


def test_sigterm_of_a_child_that_imports_stops_both_with_0__R4(machine: Machine) -> None:
    with machine.started("up") as process:
        until(partial(is_there, process, lambda: has_handler_of_its_own(child_of(process.pid))))
        child = child_of(process.pid)
        assert child is not None
        os.kill(child, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, machine.said


def test_the_handlers_come_before_anything_heavy_is_imported__R4() -> None:
    look = "import forager.__main__, sys; print(*sorted({'asyncio', 'typer', 'pydantic'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert ran.stdout.split() == []
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"forager": "forager.__main__:main"}
