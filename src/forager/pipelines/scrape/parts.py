"""Scrape jobs of any size: the job first, then its targets in parts of up to ten thousand."""

from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ConfigDict, Field

from forager.core.pipeline import JobLimits, Parts
from forager.core.task import Plan
from forager.pipelines.scrape.job import MOST_TARGETS, BatchTarget, ScrapeJob, Source, WebUrl
from forager.pipelines.scrape.target import Scrape

DIGITS = 9
"""Digits of the keys of a job whose size is not known at its beginning."""


class ScrapeJobInParts(BaseModel):
    """A scrape job whose targets follow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    callback_url: WebUrl | None = Field(
        default=None, description="Notified when the job ends, instead of the default receiver."
    )
    source: Source = None


def plan_targets(targets: Iterable[BatchTarget], first: int, digits: int) -> Iterator[Plan]:
    """Return one task per target, in their order; the first has the number `first`."""
    for number, target in enumerate(targets, first):
        task = Scrape(
            number=number,
            target_type=target.target_type,
            target_url=target.target_url,
            requested_fields=target.wanted,
            workspace_id=target.workspace_id,
            render=target.render,
            min_confidence=target.min_confidence,
            digits=digits,
        )
        yield Plan(task, rank=number)


def plan_part(part: ScrapeJob, first: int) -> Iterator[Plan]:
    return plan_targets(part.targets, first, DIGITS)


PARTS = Parts(ScrapeJobInParts, plan_part, lambda _: JobLimits(turn=1 + MOST_TARGETS))
"""Such a job comes after every batch that was sent whole."""
