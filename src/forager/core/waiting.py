"""Why a lane, a task or a job waits, with the same reasons in reports, API, command line and metrics. Pure."""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

FAR_SECONDS = 2 * 86_400
"""From this far ahead on, a moment is shown by its date instead of the remaining time."""


class WaitReason(StrEnum):
    """The reason of a wait. Programs may rely on these values: none ever changes its meaning."""

    PAUSED = "paused"
    """An operator has paused the lane."""
    HOURS = "hours"
    """Outside the lane's allowed hours."""
    BREAKER = "breaker"
    """The circuit breaker is open: the site failed too often."""
    RETRY_AFTER = "retry_after"
    """The site requested a pause."""
    CAP = "cap"
    """The lane has spent what it may spend in an hour, a day or a month."""
    RATE = "rate"
    """The next request is not due yet."""
    RETRY = "retry"
    """The last attempt could not be completed; the next one is due later."""
    OFFERED = "offered"
    """A message offers the task to Kafka workers; any other worker takes it when the offer ends."""
    PREDECESSOR = "predecessor"
    """Another task must be completed first."""
    CRASH = "crash"
    """Tasks that were in flight when a worker died are tried again in small groups."""
    STORE = "store"
    """The store accepts no work: the disk is full, or the database does not answer."""
    NO_WORKER = "no_worker"
    """No worker is running."""


class Waiting(BaseModel):
    """Why something waits, and until when."""

    model_config = ConfigDict(frozen=True)

    reason: str = Field(
        description="Cause of the wait: paused, hours, breaker, retry_after, cap, rate, retry, offered, predecessor,"
        " crash, store, no_worker; for a task that is tried again, the reason of its last attempt.",
        examples=["rate"],
    )
    message: str = Field(description="The reason as a sentence.", examples=["next request to example.com in 8 s"])
    lane: str | None = Field(default=None, description="The lane that is waited for.", examples=["example.com"])
    until: datetime | None = Field(default=None, description="End of the wait; null if it does not end by itself.")


def seconds_left(until: datetime, now: datetime) -> str:
    """Format the remaining time: `8 s`, `3 min`, `5 h`."""
    seconds = max(1, round((until - now).total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7_200:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3_600)} h"


def when(moment: datetime, now: datetime) -> str:
    """Format a future moment: `in 8 s`, and by its date if it is more than two days ahead."""
    if (moment - now).total_seconds() < FAR_SECONDS:
        return f"in {seconds_left(moment, now)}"
    return f"on {clock_time(moment, now)}"


def clock_time(moment: datetime, now: datetime) -> str:
    """Format a moment in UTC; only the time if it is within a day."""
    close = (moment - now).total_seconds() < 86_400
    return moment.strftime("%H:%M UTC" if close else "%Y-%m-%d %H:%M UTC")
