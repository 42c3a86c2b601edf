"""Public names of rows. A task's UUID is computed from its numbers and back, so it needs no index of its own."""

from uuid import UUID

_TASK_BITS = 62
_JOB_BITS = 48
_VERSION = 8


def task_uuid(job: int, task: int) -> UUID:
    """UUID version 8: 48 bits of the job's number, then (past version and variant) 62 bits of the task's."""
    if not (0 <= job < 1 << _JOB_BITS and 0 <= task < 1 << _TASK_BITS):
        raise ValueError(f"job {job} or task {task} is out of range")
    return UUID(int=(job << 80) | (_VERSION << 76) | (0b10 << 62) | task)


def task_numbers(public: UUID) -> tuple[int, int] | None:
    """(job, task) of a UUID made by `task_uuid`; None for any other."""
    value = public.int
    job, task = value >> 80, value & ((1 << _TASK_BITS) - 1)
    return (job, task) if task_uuid(job, task) == public else None


def claim_text(claimed_at_ms: int, claim: int) -> str:
    """The seed's spelling of a claim: `claim-<unix>-<9 hex>`."""
    return f"claim-{claimed_at_ms // 1000}-{claim:09x}"
