"""Sorts a batch of changes by what must be read for it: jobs, tasks, records. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from forager.core.change import Change
from forager.kit.mirror import Mirror

WHOLE = frozenset({"created", "retried", "extended"})
"""What can happen to a job after which all of its tasks are read: tasks that are queued are not in the log."""


class Item(NamedTuple):
    """The last change of one task or record in a batch."""

    change: int
    op: str
    version: int


@dataclass(slots=True)
class Asked:
    """What a batch asks for. Jobs are named by their public ids; a record of world scope has the job None."""

    jobs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By pipeline: the jobs that the batch names, each with its last change."""
    whole: dict[str, set[str]] = field(default_factory=dict)
    """By pipeline: the jobs of which every task and every record is read."""
    tasks: dict[str, dict[str, dict[str, Item]]] = field(default_factory=dict)
    """By pipeline and job: tasks by key."""
    records: dict[str, dict[str | None, dict[str, Item]]] = field(default_factory=dict)
    """By kind and job: records by key."""

    @property
    def is_empty(self) -> bool:
        return not (self.jobs or self.tasks or self.records)


def asked(batch: Sequence[Change], mirrors: Mapping[str, Mirror], kinds: frozenset[str]) -> Asked:
    """Sort a batch. `kinds`: the kinds of changes that are mirrored."""
    found = Asked()
    for change in batch:
        if change.kind not in kinds:
            continue
        job = str(change.job) if change.job is not None else None
        mirrored = change.pipeline in mirrors and job is not None
        if change.pipeline is not None and job is not None and mirrored:
            found.jobs.setdefault(change.pipeline, {})[job] = change.id
            if change.kind == "job" and change.op in WHOLE:
                found.whole.setdefault(change.pipeline, set()).add(job)
            if change.kind == "task" and change.body is not None:
                of_job = found.tasks.setdefault(change.pipeline, {}).setdefault(job, {})
                of_job[change.body["key"]] = Item(change.id, change.op, change.version)
        if change.kind not in ("job", "task"):
            of_kind = found.records.setdefault(change.kind, {})
            of_job = of_kind.setdefault(job if change.scope == "job" else None, {})
            of_job[change.key] = Item(change.id, change.op, change.version)
    return found
