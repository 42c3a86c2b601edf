"""Exit codes of the `forager` command. Scripts rely on them: a code never changes its meaning."""

from enum import IntEnum

from forager.core.errors import Conflict, NotFound, Rejected, ServiceAway, StoreError, StoreLocked, Transient
from forager.kit.cli.errors import ApiUnreachable, JobNotDone, KeyRefused, ProblemFound, ServerFault


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
    INTERRUPTED = 130, "Ctrl-C; nothing is lost, and the message says how to resume"


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
