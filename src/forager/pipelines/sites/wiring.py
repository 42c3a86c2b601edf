"""Builds the sites pipeline, and its work outside of tasks."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import structlog
from pydantic import ValidationError

from forager.core.errors import FieldError, Rejected, StoreError
from forager.core.invalid import field_errors
from forager.core.pipeline import Pipeline, StepFunction
from forager.pipelines.sites import pipeline
from forager.pipelines.sites.app_steps import SiteSteps
from forager.pipelines.sites.job import SiteJob
from forager.pipelines.sites.reports import count_links
from forager.pipelines.sites.tasks import ReadSitemap, StartCrawl, VisitPage
from forager.sdk.queries import loads
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

log = structlog.get_logger("forager.sites")
EVERY = 10.0
"""Seconds between two searches for ended crawls."""


def build(_: SettingsTree) -> Pipeline:
    return pipeline.build()


async def with_id(service: Service, job: SiteJob) -> SiteJob:
    """Return the job with an id of its own, by which its tasks find the row of their crawl, and with a copy of the
    schema that it names. Raises `Rejected` for an unknown name."""
    if isinstance(job.fields, str):
        rows = await service.database.fetch("SELECT body FROM page_schemas WHERE name = :name", {"name": job.fields})
        if not rows:
            problem = f"there is no schema {job.fields!r}; see `forager schemas list`, or send the schema itself"
            raise Rejected("The crawl is not valid.", fields=[FieldError("fields", problem)])
        whole = {**job.model_dump(mode="json"), "fields": loads(rows[0]["body"])}
        job = validated_job(whole)
    return job.model_copy(update={"crawl": uuid4().hex})


def validated_job(values: Mapping[str, Any]) -> SiteJob:
    """Return the job. Raises `Rejected`, naming the fields, if the stored schema does not fit."""
    try:
        return SiteJob.model_validate(values)
    except ValidationError as error:
        raise Rejected("The crawl is not valid.", fields=field_errors(error)) from error


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the functions of the steps, by kind of task."""
    steps = SiteSteps(service)
    return {StartCrawl.kind: steps.start, ReadSitemap.kind: steps.sitemap, VisitPage.kind: steps.visit}


async def upkeep(service: Service) -> None:
    """Count the links of crawls that have ended, until cancelled. If the store is away, try again later."""
    while True:
        try:
            await count_links(service)
        except StoreError as error:
            log.warning("links_not_counted", error=error.message)
        await service.clock.sleep(EVERY)
