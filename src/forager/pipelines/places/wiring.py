"""Builds the places pipeline from its settings, and provides its secret and its reference data."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import SecretStr

from forager.core.database import Database
from forager.core.errors import ForagerError, Retry
from forager.core.pipeline import Pipeline
from forager.core.schedules import Charge
from forager.extract.serper import package_for
from forager.pipelines.places import pipeline
from forager.pipelines.places.estimate import Density, PlacesPlan, Terms, estimate
from forager.pipelines.places.job import PlacesDefaults, PlacesJob, check, places_params
from forager.pipelines.places.reports import density
from forager.pipelines.places.settings import PlacesSettings
from forager.pipelines.places.steps import API_KEY, Serper
from forager.pipelines.places.zips import Zip, ZipTable, shipped_zips
from forager.sdk.cli.render import some
from forager.sdk.feature import Finding, FromTable
from forager.sdk.overview import Expenses
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(PlacesSettings)
    lane = replace(
        pipeline.SERPER_LANE,
        rate=own.serper_rate,
        burst=own.serper_burst,
        concurrency=own.serper_concurrency,
        retry=Retry(own.max_retries_per_query, first=own.retry_delay_seconds),
        cap_hour=own.serper_max_credits_hour,
        cap_day=own.serper_max_credits_day,
        cap_month=own.serper_max_credits_month,
    )
    serper = Serper(own.serper_base_url, own.serper_timeout_seconds, map_credits=own.serper_map_credits)
    defaults = PlacesDefaults(pages=own.default_pages, batch_size=own.default_batch_size)
    return pipeline.build(serper, lane=lane, params=places_params(defaults))


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    return {API_KEY: settings.of(PlacesSettings).serper_api_key}


def references(settings: SettingsTree) -> Mapping[str, Callable[[], ZipTable] | FromTable]:
    """`zips`: the operator's own table, in a file or in a warehouse, or else the one that ships."""
    table = settings.of(PlacesSettings).zip_table
    if isinstance(table, str):
        return {"zips": FromTable(table, Zip._fields, lambda rows: ZipTable.from_rows(rows, name=table))}
    return {"zips": shipped_zips if table is None else lambda: ZipTable.from_csv(table)}


# Checks of the places pipeline for `forager doctor`. They change nothing, and never raise.


def checks(settings: SettingsTree) -> Iterator[Finding]:
    own = settings.of(PlacesSettings)
    if own.serper_api_key is None:
        remedy = "Set SERPER_API_KEY to run places jobs; `forager demo` and `forager places plan` need none."
        yield Finding("serper", "note", "no key is set", remedy)
    else:
        yield Finding("serper", "ok", f"a key is set; {own.serper_rate}/s at {own.serper_base_url}")
    if own.zip_table is None:
        return
    if isinstance(own.zip_table, str):
        yield Finding("zip table", "note", f"{own.zip_table} is read with the first job")
        return
    try:
        table = ZipTable.from_csv(own.zip_table)
        yield Finding("zip table", "ok", f"{own.zip_table}, {some(len(table.states), 'state')}")
    except (ForagerError, OSError, ValueError) as error:
        yield Finding("zip table", "problem", str(error), "Correct the file, or unset FORAGER_ZIP_TABLE.")


# The price of a places job: the pure estimate, given the settings and what earlier jobs recorded.


async def price(service: Service, job: PlacesJob) -> PlacesPlan:
    """Calls nothing upstream and spends nothing. Runs in a thread: a job can have 50,000 ZIPs."""
    own = service.settings.of(PlacesSettings)
    zips = await service.reference("zips")
    recorded = await density(service.database, keyword=job.keyword, state=job.state)
    return await asyncio.to_thread(estimate, job, zips, _terms(own), recorded)


async def price_at_rest(settings: SettingsTree, database: Database | None, params: Mapping[str, Any]) -> Any:
    """Return the price as the API does, without opening the application: from the settings, the table of ZIPs and, if
    there is a store, what it recorded. None if the table is in a warehouse. Raises `ValueError` for wrong
    parameters."""
    own = settings.of(PlacesSettings)
    if isinstance(own.zip_table, str):
        return None
    job = places_params(PlacesDefaults(pages=own.default_pages, batch_size=own.default_batch_size))(**params)
    zips = shipped_zips() if own.zip_table is None else ZipTable.from_csv(own.zip_table)
    check(job, zips)
    recorded = Density() if database is None else await density(database, keyword=job.keyword, state=job.state)
    return estimate(job, zips, _terms(own), recorded).model_dump(mode="json")


def _terms(own: PlacesSettings) -> Terms:
    return Terms(
        rate=own.serper_rate,
        concurrency=own.serper_concurrency,
        price_per_1000=own.serper_price_per_1000,
        map_credits=own.serper_map_credits,
    )


async def charge(service: Service, job: PlacesJob) -> Charge | None:
    """Return the money that a job costs; None for a dry run. A budget is the job's own, or a cap of the settings."""
    if job.dry_run:
        return None
    own, plan = service.settings.of(PlacesSettings), await price(service, job)
    caps = (own.serper_max_credits_hour, own.serper_max_credits_day, own.serper_max_credits_month)
    return Charge(
        plan.expected_usd,
        plan.worst_usd,
        has_budget=job.max_credits is not None or any(cap is not None for cap in caps),
        budget="a budget, `max_credits` (-p max_credits=1000)",
        warning=await _below_estimate(service, job),
    )


async def _below_estimate(service: Service, job: PlacesJob) -> str | None:
    if job.max_credits is None:
        return None
    whole = await price(service, job.model_copy(update={"max_credits": None}))
    if job.max_credits >= whole.expected_credits:
        return None
    budget = f"{job.max_credits:,} credit{'' if job.max_credits == 1 else 's'}"
    return (
        f"The budget of {budget} is below the estimate of {whole.expected_credits:,}: "
        "the queries that it does not pay for are skipped."
    )


async def expenses(service: Service) -> Expenses | None:
    """Return the money for the credits of today and of this month."""
    own, now = service.settings.of(PlacesSettings), await service.ledger.now()
    rows = await service.database.fetch(
        "SELECT s.day, s.spent FROM spending s JOIN lanes l ON l.id = s.lane_id"
        " WHERE l.name = :lane AND s.day >= :first",
        {"lane": pipeline.SERPER_LANE.name, "first": int(f"{now:%Y%m}01")},
    )
    price = own.serper_price_per_1000
    credit = (package_for(own.serper_rate).price_per_1000 if price is None else price) / 1000
    spent = {row["day"]: row["spent"] for row in rows}
    caps = (own.serper_max_credits_day, own.serper_max_credits_month)
    day, month = (None if cap is None else cap * credit for cap in caps)
    return Expenses(spent.get(int(f"{now:%Y%m%d}"), 0) * credit, sum(spent.values()) * credit, day, month)
