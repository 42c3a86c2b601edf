"""One run of the command line: the global options, the options that commands share, and access to the application.

The SDK does not import the application. `Invocation` holds a `Host`, which reads the settings and connects to the API.
"""

import asyncio
import re
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar
from uuid import UUID

import typer

from forager.core.errors import (
    Conflict,
    ForagerError,
    NotFound,
    Rejected,
    ServiceAway,
    StoreError,
    StoreLocked,
    Transient,
)
from forager.core.ids import task_numbers, task_uuid
from forager.sdk.cli.client import Api, ApiUnreachable, JobNotDone, KeyRefused, ProblemFound, ServerFault


class LocalEngine(Protocol):
    """The engine on the store that this process has opened."""

    def running(self) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
        """Run the engine while the block runs, without schedules. At its end, in-flight tasks finish."""
        ...

    async def give_back(self) -> None:
        """Return in-flight tasks to the queue at once."""
        ...

    async def has_notified(self) -> bool:
        """Deliver the webhooks of jobs that have ended. Returns whether each was tried at least once."""
        ...


StoreUse = Literal["existing", "created", "optional"]
"""Behaviour of a command without a store: `existing` fails and names the folder, because the store may be elsewhere;
`created` creates it; `optional` answers as for an empty store, and leaves no trace."""


@dataclass(frozen=True, slots=True)
class Reached:
    """The API of the store that a command works on."""

    api: Api
    engine: LocalEngine | None = None
    """Set if this process has opened the store itself; None if a running Forager answers."""
    is_alone: bool = False
    """True if no other process can be working on the store now."""


class ApplicationHost(Protocol):
    """The part of the application that the SDK uses."""

    def settings(self, overrides: Mapping[str, object]) -> Any:
        """Return the settings with these values on top. Raises `Rejected` if one is not valid."""
        ...

    def reach(
        self, settings: Any, *, debug: bool, store: StoreUse = "existing"
    ) -> AbstractAsyncContextManager[Reached]:
        """Connect to the API of a running Forager, or open the store in this process."""
        ...

    def at_rest(self, settings: Any) -> AbstractContextManager[Any]:
        """Yield the embedded store as a read-only `Database`, or None if it does not exist. Raises `LookupError` if a
        process may be using it."""
        ...


@dataclass
class Invocation:
    """One run of the command. The parser fills it in; the command and the error report read it."""

    host: ApplicationHost
    arguments: tuple[str, ...] = ()
    home: Path | None = None
    debug: bool = False
    as_json: bool = False
    flags: Mapping[str, str] = field(default_factory=dict)
    """The command's options by the API field that each sets, so that an error can name the option."""

    def settings(self, overrides: Mapping[str, object] | None = None) -> Any:
        """Return the settings of this run: overrides and `--home` come before environment and files."""
        return self.host.settings({"home": self.home, **(overrides or {})})


def invocation(context: typer.Context) -> Invocation:
    """Return the invocation that this context belongs to."""
    current: Invocation = context.find_root().obj
    return current


def _remember_json(context: typer.Context, value: bool) -> bool:
    """Remember `--json` in the invocation, because a later error must be printed as JSON as well."""
    if value and isinstance(context.find_root().obj, Invocation):
        context.find_root().obj.as_json = True
    return value


Json = Annotated[bool, typer.Option("--json", help="Print the data as JSON, for programs.", callback=_remember_json)]


# The frame of every command: settings, an event loop, and the API of the store.


T = TypeVar("T")

NO_WORKER = "No worker is running: start `forager up`, or run `forager worker --until-idle`."


def with_api(
    context: typer.Context,
    work: Callable[[Reached], Awaitable[T]],
    overrides: Mapping[str, object] | None = None,
    *,
    fields: Mapping[str, str] | None = None,
    store: StoreUse = "existing",
    quick: Callable[[Any, Any], Awaitable[T | None]] | None = None,
) -> T:
    """Call `work` with the API of this store: that of a running Forager, or of one opened for this command.

    `quick(settings, database)` may answer first, without opening the application: `database` reads the store that no
    process has, or is None if there is no store. It returns exactly what `work` would, or None to leave the answer, and
    every error, to `work`. `store`: what to do if there is no store. `overrides` are settings for this command. They do
    not reach a Forager that runs. `fields` maps fields of the API to the parameters of this command that set them,
    where the two names differ, so that an error names the option.
    """
    current = invocation(context)
    current.flags = flags_of(context, fields or {})
    settings = current.settings(overrides)

    async def inside() -> T:
        if quick is not None:
            with suppress(*UNCERTAIN), current.host.at_rest(settings) as database:
                if (answer := await quick(settings, database)) is not None:
                    return answer
        async with current.host.reach(settings, debug=current.debug, store=store) as reached:
            return await work(reached)

    return run_loop(inside())


UNCERTAIN = (LookupError, OSError, ValueError, ForagerError)
"""Errors of a quick answer after which the application answers, with its own words for what is wrong."""


def flags_of(context: typer.Context, fields: Mapping[str, str]) -> dict[str, str]:
    """Map each field of the API to the option or argument that sets it: the parameter of its name, or of `fields`."""
    flags = {
        str(each.name): str(each.metavar or each.name).upper().strip("[].")
        if each.param_type_name == "argument"
        else max(each.opts, key=len)
        for each in context.command.params
    }
    return flags | {field: flags[parameter] for field, parameter in fields.items() if parameter in flags}


def post(context: typer.Context, path: str, *, fields: Mapping[str, str] | None = None) -> tuple[Any, str]:
    """Post to the API. Returns the answer, and a remark to print if no worker is running that could act on it."""

    async def work(at: Reached) -> tuple[Any, str]:
        return await at.api.post(path), f" {NO_WORKER}" if at.is_alone else ""

    return with_api(context, work, fields=fields)


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a fast event loop of its own."""
    import uvloop

    return uvloop.run(main)


# Exit codes of the `forager` command. Scripts rely on them: a code never changes its meaning.


class ExitCode(IntEnum):
    """Numbers above 63 are those of `sysexits.h`, 130 is the shell's own for Ctrl-C."""

    about: str

    def __new__(cls, number: int, about: str) -> "ExitCode":
        code = int.__new__(cls, number)
        code._value_ = number
        code.about = about
        return code

    OK = 0, "done"
    FAILED = 1, "a job failed or was paused, or a check found a problem"
    USAGE = 2, "the command line, a setting or the input is not valid"
    STORE_LOCKED = 3, "another process owns the embedded store and has no API to go through"
    NOT_FOUND = 4, "there is no such job, task or schedule"
    CONFLICT = 5, "it contradicts what is there: a job that has ended, a key that was used for another job"
    UNAVAILABLE = (
        69,
        "the store, the API or another service cannot be used: it does not answer, is full, or has another schema",
    )
    INTERNAL = 70, "a fault in Forager itself; `--debug` shows where"
    KEY_REFUSED = 77, "the API does not accept the service key"
    INTERRUPTED = 130, "Ctrl-C; nothing is lost, and the message shows how to resume"


# The first matching class decides, so a subclass comes before its base.
_BY_ERROR: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (StoreLocked, ExitCode.STORE_LOCKED),
    (NotFound, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (Rejected, ExitCode.USAGE),
    (StoreError, ExitCode.UNAVAILABLE),
    (ApiUnreachable, ExitCode.UNAVAILABLE),
    (KeyRefused, ExitCode.KEY_REFUSED),
    (ServerFault, ExitCode.INTERNAL),
    (JobNotDone, ExitCode.FAILED),
    (ProblemFound, ExitCode.FAILED),
    (ServiceAway, ExitCode.UNAVAILABLE),
    (Transient, ExitCode.UNAVAILABLE),
)


def exit_code_for(error: BaseException) -> ExitCode:
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.INTERNAL)


# Stop requests for a running process. The first one finishes in-flight tasks; a second one returns them to the queue at
# once.


ECHO = 1.0
"""Signals within this time are one request: a terminal sends Ctrl-C to parent and child, and the parent passes it
on."""


NUMBERS = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._hurried = asyncio.Event()
        self._first_at = 0.0
        self.by: signal.Signals | None = None

    def ask(self, number: signal.Signals) -> None:
        now = time.monotonic()
        if not self._asked.is_set():
            self.by, self._first_at = number, now
            self._asked.set()
        elif now - self._first_at > ECHO:
            self._hurried.set()

    @property
    def is_asked(self) -> bool:
        return self._asked.is_set()

    async def wait(self) -> None:
        await self._asked.wait()

    async def wait_for_hurry(self) -> None:
        await self._hurried.wait()


def early_stop() -> signal.Signals | None:
    """Return the signal that came while the process was still importing (`forager/__main__.py`), if one did."""
    return next((asked for number in NUMBERS if (asked := kept_by(signal.getsignal(number))) is not None), None)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and SIGINT into a stop request while the block runs. One that came before is a request as well."""
    loop = asyncio.get_running_loop()
    request = StopRequest()
    before = [signal.getsignal(number) for number in NUMBERS]
    for number in NUMBERS:
        loop.add_signal_handler(number, request.ask, number)
    for handler in before:  # only now: none can come between
        if (early := kept_by(handler)) is not None:
            # Not at once: the loop may report the same signal when it runs again. The two must count as one request.
            loop.call_soon(request.ask, early)
    try:
        yield request
    finally:
        for number, handler in zip(NUMBERS, before, strict=True):
            loop.remove_signal_handler(number)
            if handler is not None:  # a second signal must not kill the process on its last steps
                signal.signal(number, handler)


def kept_by(handler: object) -> signal.Signals | None:
    """Return the signal that this handler got, if it is one that keeps signals until the process can stop in order."""
    first = getattr(handler, "first", None)
    return None if first is None else signal.Signals(first)


# Ids as users type them: the first characters of a job's id, or a task's two numbers. Pure, except for `full_job`.


SHOWN = 8
"""Characters of a job's id in a table."""
_PART_OF_ID = re.compile(r"[0-9a-f]{4}[0-9a-f-]{0,32}")
_TASK = re.compile(r"(\d{1,14})-(\d{1,18})")


def short_job(job: str) -> str:
    """Return the id of a job as tables show it."""
    return job[:SHOWN]


def short_task(task: str) -> str:
    """Return a task's two numbers, `JOB-TASK`: its whole id is computed from them."""
    numbers = task_numbers(UUID(task))
    return task if numbers is None else f"{numbers[0]}-{numbers[1]}"


def read_job(text: str) -> str:
    """Accept a job's id, or its first characters. Raises `BadParameter` for anything else."""
    prefix = text.strip().lower()
    if not _PART_OF_ID.fullmatch(prefix):
        raise typer.BadParameter(f"{text!r} is not a job id; copy one from `forager jobs list`")
    return prefix


def read_task(text: str) -> str:
    """Accept a task's id or its two numbers. Raises `BadParameter` for anything else."""
    if numbers := _TASK.fullmatch(text.strip()):
        try:
            return str(task_uuid(int(numbers[1]), int(numbers[2])))
        except ValueError:
            pass
    try:
        return str(UUID(text.strip()))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a task id; copy one from `forager dead list`") from None


async def full_job(api: Api, text: str) -> str:
    """Return the full id of the job with this prefix. Raises `NotFound` if no job has it, `Rejected` if several have
    it."""
    if len(text) == 36:
        return text
    matching = [each["id"] for each in await api.get("/jobs", id=text, internal=True, limit=3)]
    if not matching:
        raise NotFound(f"No job id begins with {text!r}. List the jobs: forager jobs list --all")
    if len(matching) > 1:
        raise Rejected(f"Several job ids begin with {text!r}: {', '.join(matching)}. Give more characters.")
    return str(matching[0])


JobId = Annotated[
    str, typer.Argument(metavar="JOB", parser=read_job, help="Id of the job, or its first characters (at least 4).")
]
OfJob = Annotated[
    str | None, typer.Option("--job", metavar="JOB", parser=read_job, help="Only this job; its id or a prefix of it.")
]
TaskId = Annotated[str, typer.Argument(metavar="TASK", parser=read_task, help="Id of the task, as a list shows it.")]
