"""The states of jobs and tasks, and the few reasons that the ledger itself writes. Drawn in docs/states.md."""

import re
from enum import IntEnum, StrEnum

# Why a task failed or was skipped, for programs: a reason, and the type of error behind it.
#
# A reason is one lower-case word with underscores. The engine and the ledger use those below; a pipeline declares its
# own in `Pipeline.reasons`. The message for people is in the task's `error`, and is never parsed.


_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")


class ErrorType(StrEnum):
    """The category of a failure."""

    NETWORK = "network"
    """No connection, no answer in time, an answer that broke off, a proxy."""
    HTTP = "http"
    """The upstream answered, and the answer is an error."""
    BLOCKED = "blocked"
    """The site does not serve us: robots.txt, a bot wall, a login wall, an open circuit breaker."""
    PARSE = "parse"
    """The answer is not what it should be: malformed, another layout."""
    VALIDATION = "validation"
    """The input is wrong: a URL that the egress guard refuses, a stored task that does not fit its class."""
    STORAGE = "storage"
    """The ledger could not take the outcome, or was away."""
    INTERNAL = "internal"
    """Our own code, process or configuration. Also everything unclassified."""


class Reason(StrEnum):
    """The reasons that the engine and the ledger use."""

    # ── the upstream ──
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"
    SERVER_ERROR = "server_error"
    """It answered with a status of 500 or more."""
    BROKEN_ANSWER = "broken_answer"
    """Its answer broke off, is not HTTP, or cannot be unpacked."""
    TOO_LARGE = "too_large"
    """Its answer is larger than the limit of the request."""
    CERTIFICATE = "certificate"
    TOO_MANY_REDIRECTS = "too_many_redirects"
    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    ROBOTS = "robots"
    ROBOTS_UNREADABLE = "robots_unreadable"
    CIRCUIT_OPEN = "circuit_open"
    # ── the way there ──
    EGRESS_REFUSED = "egress_refused"
    PROXY_FAILED = "proxy_failed"
    NO_HEALTHY_PROXIES = "no_healthy_proxies"
    POOL_EXHAUSTED = "pool_exhausted"
    BROWSER_CRASHED = "browser_crashed"
    CREDENTIALS_MISSING = "credentials_missing"
    KEY_REFUSED = "key_refused"
    """The credential backend refuses our own key."""
    LANE_AWAY = "lane_away"
    ACTION_FAILED = "action_failed"
    """An action that a caller requested could not be performed on the page."""
    RATE = "rate"
    """The next request to its lane is not due yet: the task waits."""
    # ── the task itself ──
    UNDECODABLE = "undecodable"
    UNCONFIGURED = "unconfigured"
    BLOB_MISSING = "blob_missing"
    PARSE_LATE = "parse_late"
    PARSE_CRASHED = "parse_crashed"
    STEP_BROKE = "step_broke"
    TOO_MANY_CHILDREN = "too_many_children"
    CRASHED = "crashed"
    GAVE_UP = "gave_up"
    UNSTORABLE = "unstorable"
    STORE_AWAY = "store_away"
    # ── ends that are not a failure of the task ──
    AFTER_FAILED = "after_failed"
    BUDGET = "budget"
    """The job's own budget is spent …"""
    LIMIT = "limit"
    """… or what its lane may spend in an hour, a day or a month."""
    CANCELLED = "cancelled"
    JOINED = "joined"


def require_words(reasons: frozenset[str]) -> None:
    """Raise `ValueError` unless each of these can be a reason: it is a column, a filter and a metric's label."""
    for reason in reasons:
        if not _WORD.fullmatch(reason):
            raise ValueError(f"{reason!r} cannot be a reason: use one lower-case word, such as not_found")


class TaskState(IntEnum):
    """The state of a task in the ledger. Users see `public()`: several kinds of waiting are all `queued`."""

    READY = 0
    WAITING = 1
    """Due later: a retry or a snooze."""
    HELD = 2
    """Waits until its predecessor is completed."""
    RUNNING = 3
    COMPLETED = 4
    FAILED = 5
    SKIPPED = 6
    CANCELLED = 7
    SUSPECT = 8
    """Was in flight when its worker died: runs again in smaller groups, in the end alone."""

    def public(self) -> str:
        return PUBLIC_STATE[self]


PUBLIC_STATE = {
    TaskState.READY: "queued",
    TaskState.WAITING: "queued",
    TaskState.HELD: "queued",
    TaskState.SUSPECT: "queued",
    TaskState.RUNNING: "running",
    TaskState.COMPLETED: "completed",
    TaskState.FAILED: "failed",
    TaskState.SKIPPED: "skipped",
    TaskState.CANCELLED: "cancelled",
}

ENDS = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.SKIPPED, TaskState.CANCELLED})
QUEUED = (TaskState.READY, TaskState.WAITING, TaskState.HELD, TaskState.SUSPECT)


class JobState(StrEnum):
    PLANNING = "planning"
    """Its tasks are still being written. Shown as `queued`; nothing of it can be leased."""
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    PARTIALLY_COMPLETED = "partially_completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL_JOBS

    def public(self) -> str:
        return "queued" if self is JobState.PLANNING else self.value


TERMINAL_JOBS = frozenset({JobState.COMPLETED, JobState.PARTIALLY_COMPLETED, JobState.FAILED, JobState.CANCELLED})

AFTER_FAILED = Reason.AFTER_FAILED.value
BUDGET = Reason.BUDGET.value
CANCELLED = Reason.CANCELLED.value

ALONE_CRASHES = 3
"""Crashes of a worker while it ran the step of only this task, after which the task becomes a dead letter …"""
WAITING_CRASHES = 10
"""… and while that step waited for an answer, counted apart. A process rarely dies of waiting: far more often it was
killed from outside, and a slow upstream made the task look guilty."""


def ended_state(*, completed: int, failed: int, drain: str | None, refused: bool = False) -> JobState:
    """Return the final state of a job without open tasks.

    A task that was skipped is neither a success nor a failure: what counts is whether any task was completed. So a job
    has failed if none was, and at least one failed, the budget did not pay for the first, or, with `refused`, a site's
    robots.txt did not permit one.
    """
    if drain == CANCELLED:
        return JobState.CANCELLED
    if completed:
        return JobState.PARTIALLY_COMPLETED if failed else JobState.COMPLETED
    return JobState.FAILED if failed or drain == BUDGET or refused else JobState.COMPLETED
