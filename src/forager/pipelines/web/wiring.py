"""Builds the web pipeline from the settings of the Serper account, and prices its jobs."""

from decimal import Decimal
from typing import Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from forager.core.pipeline import Pipeline
from forager.core.schedules import Charge
from forager.extract.serper import package_for
from forager.pipelines.web import pipeline
from forager.pipelines.web.job import CREDIT, WebJob
from forager.sdk.serper import SerperSettings
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree


class WebPlan(BaseModel):
    """The price of a web search."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "queries": 1,
                    "read": 3,
                    "worst_credits": 1,
                    "expected_credits": 1,
                    "price_per_1000_usd": "0.30",
                    "worst_usd": "0.0003",
                    "expected_usd": "0.0003",
                }
            ]
        },
    )

    queries: int = Field(description="Pages of results: each is a query.")
    read: int = Field(description="Results that are read, which costs nothing.")
    worst_credits: int = Field(description="Credits of all queries, never above max_credits.")
    expected_credits: int = Field(description="The same: the number of results is not known before.")
    price_per_1000_usd: Decimal = Field(description="Price of 1,000 credits.")
    worst_usd: Decimal
    expected_usd: Decimal


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(SerperSettings)
    return pipeline.build(pipeline.WebSearch(own.serper_base_url, own.serper_timeout_seconds))


async def with_id(_: Service, job: Any) -> Any:
    """Return the job with an id of its own, by which the scrape job of its results is found."""
    return job.model_copy(update={"search": uuid4().hex}) if isinstance(job, WebJob) else job


async def price(service: Service, job: WebJob) -> WebPlan:
    """Return what a search costs. Sends and spends nothing."""
    own = service.settings.of(SerperSettings)
    each = own.serper_price_per_1000
    each = package_for(own.serper_rate).price_per_1000 if each is None else each
    paid = job.pages * CREDIT if job.max_credits is None else min(job.pages * CREDIT, job.max_credits)
    usd = each * paid / 1000
    return WebPlan(
        queries=job.pages,
        read=job.read,
        worst_credits=paid,
        expected_credits=paid,
        price_per_1000_usd=each,
        worst_usd=usd,
        expected_usd=usd,
    )


async def charge(service: Service, job: WebJob) -> Charge | None:
    """Return the money that a search costs. A budget is the job's own, or a cap of the account's settings."""
    own, plan = service.settings.of(SerperSettings), await price(service, job)
    caps = (own.serper_max_credits_hour, own.serper_max_credits_day, own.serper_max_credits_month)
    return Charge(
        plan.expected_usd,
        plan.worst_usd,
        has_budget=job.max_credits is not None or any(cap is not None for cap in caps),
        budget="a budget, `max_credits` (-p max_credits=10)",
    )
