"""Builds the scrape pipeline from the settings and the installed extractors."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import structlog
from pydantic import SecretStr

from forager.core.errors import StoreError
from forager.core.hosts import host_of
from forager.core.pipeline import Pipeline, StepFunction
from forager.core.schedules import Charge
from forager.pipelines.scrape import pipeline
from forager.pipelines.scrape.api_schemas import with_schemas
from forager.pipelines.scrape.app_steps import DescribeStep
from forager.pipelines.scrape.describe import API_KEY, LanguageModel, usd
from forager.pipelines.scrape.estimate import ScrapePlan, estimate
from forager.pipelines.scrape.extractor import ENTRY_POINTS, Extractor, load_extractors
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.job import DescribeTask, ScrapeJob, micro_usd
from forager.pipelines.scrape.settings import ScrapeSettings
from forager.sdk.feature import Finding, installed
from forager.sdk.overview import Expenses
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

log = structlog.get_logger("forager.scrape")
EVERY = 3_600.0
"""Seconds between two removals of old answers."""
KEPT = 30 * 24 * 3_600_000
"""Milliseconds for which the answer about a page is used again."""


class ScrapeTree(SettingsTree, Protocol):
    """Two settings of the application that decide how a page is fetched, in addition to the pipeline's own."""

    @property
    def navigation_timeout_ms(self) -> int: ...

    @property
    def backend_api_url(self) -> str | None: ...


def extractors_of(settings: SettingsTree) -> tuple[Extractor, ...]:
    """Return the extractors that ship, those of installed packages, and those of the operator's files."""
    return (*EXTRACTORS, *installed(ENTRY_POINTS), *load_extractors(settings.of(ScrapeSettings).extractor_files))


def build(settings: ScrapeTree) -> Pipeline:
    own = settings.of(ScrapeSettings)
    return pipeline.build(
        extractors_of(settings),
        navigation=settings.navigation_timeout_ms / 1000,
        timeout=own.task_timeout_seconds,
        most_queued=own.max_queue_depth,
        logins=settings.backend_api_url is not None,
        keep_logged_in=own.keep_logged_in_pages,
        model=model_of(own),
        no_model=missing_settings(own),
        scripts=own.scrape_evaluate,
        lane=replace(
            pipeline.LANE,
            rate=own.llm_rate,
            burst=own.llm_rate,
            concurrency=own.llm_concurrency,
            cap_day=micro_usd(own.llm_max_usd_day),
            cap_month=micro_usd(own.llm_max_usd_month),
        ),
    )


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    return {API_KEY: settings.of(ScrapeSettings).llm_api_key}


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the functions of the steps, by kind of task."""
    own = service.settings.of(ScrapeSettings)
    known = {each.name: each for each in extractors_of(service.settings)}
    return {DescribeTask.kind: DescribeStep(service, known, model_of(own), missing_settings(own)).describe}


# The language model: its settings, its prices, its costs. Off unless all of its settings are there.


def model_of(own: ScrapeSettings) -> LanguageModel | None:
    """Return the configured model; None if a setting is missing, such as a price."""
    if own.llm_url is None or own.llm_model is None or own.llm_price_in is None or own.llm_price_out is None:
        return None
    return LanguageModel(
        own.llm_url,
        own.llm_model,
        own.llm_price_in,
        own.llm_price_out,
        page_bytes=own.llm_page_bytes,
        answer_tokens=own.llm_answer_tokens,
        timeout=own.llm_timeout_seconds,
        has_key=own.llm_api_key is not None,
        limit_name="max_completion_tokens" if own.llm_new_limit_name else "max_tokens",
    )


def missing_settings(own: ScrapeSettings) -> str:
    """Return which settings a model still needs; the general message if none is set."""
    if own.llm_url is None:
        return pipeline.NO_MODEL
    wanted = ("llm_model", "llm_price_in", "llm_price_out")
    missing = [f"FORAGER_{name.upper()}" for name in wanted if getattr(own, name) is None]
    return f"the language model is not completely configured; set {', '.join(missing)} (a price of your own model: 0)"


def checks(settings: SettingsTree) -> Iterator[Finding]:
    own = settings.of(ScrapeSettings)
    if own.llm_url is None:
        return
    if model_of(own) is None:
        yield Finding("language model", "problem", "a setting is missing", f"{missing_settings(own).capitalize()}.")
        return
    key = "with a key" if own.llm_api_key is not None else "without a key"
    yield Finding("language model", "ok", f"{own.llm_model} at {own.llm_url}, {key}")


async def complete(service: Service, job: Any) -> Any:
    """Return the job with what it takes from the store: schemas by name, stored pages that are young enough."""
    job = await with_schemas(service, job)
    if not isinstance(job, ScrapeJob) or not any(each.max_age for each in job.targets):
        return job
    from forager.pipelines.scrape.reports_stored import with_stored

    return await with_stored(service, job)


async def price(service: Service, job: ScrapeJob) -> ScrapePlan:
    """Return what a job costs at most, and probably: described fields and the unblocking service cost money. Sends and
    spends nothing."""
    via = service.via_cost(host_of(each.target_url) for each in job.targets)
    return estimate(await with_schemas(service, job), model_of(service.settings.of(ScrapeSettings)), via)


async def charge(service: Service, job: ScrapeJob) -> Charge | None:
    """Return the money that a job costs; None if it has no described fields."""
    plan, own = await price(service, job), service.settings.of(ScrapeSettings)
    if not plan.described_pages:
        return None
    caps = (own.llm_max_usd_day, own.llm_max_usd_month)
    return Charge(
        plan.expected_usd,
        plan.worst_usd,
        has_budget=job.max_usd is not None or any(cap is not None for cap in caps),
        budget="a budget, `max_usd` (-p max_usd=0.50)",
        warning=plan.warning,
    )


async def expenses(service: Service) -> Expenses | None:
    """Return the money for the described fields of today and of this month; None without a model."""
    own, now = service.settings.of(ScrapeSettings), await service.ledger.now()
    if own.llm_url is None:
        return None
    rows = await service.database.fetch(
        "SELECT s.day, s.spent FROM spending s JOIN lanes l ON l.id = s.lane_id"
        " WHERE l.name = :lane AND s.day >= :first",
        {"lane": pipeline.LANE.name, "first": int(f"{now:%Y%m}01")},
    )
    spent = {row["day"]: row["spent"] for row in rows}
    today, month = usd(spent.get(int(f"{now:%Y%m%d}"), 0)), usd(sum(spent.values()))
    return Expenses(today, month, own.llm_max_usd_day, own.llm_max_usd_month)


async def upkeep(service: Service) -> None:
    """Remove answers that are older than a month, until cancelled. If the store is away, try again later."""
    while True:
        try:
            before = round((await service.ledger.now()).timestamp() * 1000) - KEPT
            await service.database.write("DELETE FROM described_answers WHERE created_at < :before", {"before": before})
        except StoreError as error:
            log.warning("old_answers_not_removed", error=error.message)
        await service.clock.sleep(EVERY)
