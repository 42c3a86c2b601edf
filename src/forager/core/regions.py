"""Regions: where a worker runs, and the lanes that only workers of one region take.

A pinned lane is in a queue of its own: `celery@eu` instead of `celery`. So sharing, waiting work and metrics by queue
are also those of the region, and nothing on the hot path needs a further condition. Workers of a region serve its
queues in addition to the ordinary ones; workers without a region leave every pinned lane alone.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from forager.core.errors import FieldError, Rejected

MARK = "@"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
REGION_FORM = "use up to 32 lower-case letters, digits and hyphens, such as eu or us-east"


@dataclass(frozen=True, slots=True)
class Pin:
    """The rule that a lane belongs to a region. It also applies to sub-domains: that of `example.com` to
    `shop.example.com`, unless that has a pin of its own."""

    lane: str
    region: str
    after: float | None = None
    """Seconds without a worker of the region after which other workers may take the lane; None: never."""


def is_region(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def checked_region(name: str) -> str:
    """Return the name of a region. Raises `Rejected` if it is none."""
    if is_region(name):
        return name
    message = f"{name[:80]!r} is not the name of a region: {REGION_FORM}."
    raise Rejected(message, fields=[FieldError("region", REGION_FORM)])


def queue_in(queue: str, region: str | None) -> str:
    """Return the queue of a region's lanes, from that of any region."""
    return queue if region is None else f"{queue}{MARK}{region}"


def region_of(queue: str) -> str | None:
    """Return the region to which the lanes of a queue are pinned; None if any worker takes them."""
    return queue.partition(MARK)[2] or None


def served_queues(wanted: Collection[str], known: Iterable[str], region: str | None) -> tuple[str, ...] | None:
    """Return the queues that a worker serves: those `wanted`, or all that are `known`, and the same of its region. None
    stands for every queue without a region."""
    if region is None:
        return tuple(wanted) or None
    return tuple(each for queue in sorted(wanted or known) for each in (queue, queue_in(queue, region)))
