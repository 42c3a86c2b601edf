"""Estimates the cost of a scrape job before anything is spent: only described fields cost money. Pure."""

from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from forager.extract.schemas.spec import PageSchema
from forager.pipelines.scrape.describe import LanguageModel, usd
from forager.pipelines.scrape.job import ScrapeJob


class ScrapePlan(BaseModel):
    """The price of a scrape job."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "pages": 20,
                    "described_pages": 20,
                    "model": "gpt-4o-mini",
                    "price_in_usd": "0.15",
                    "price_out_usd": "0.60",
                    "expected_usd": "0.0222",
                    "worst_usd": "0.264",
                    "max_usd": "0.50",
                    "via_usd": "0",
                    "warning": None,
                }
            ]
        },
    )

    pages: int = Field(description="Pages to fetch.")
    described_pages: int = Field(description="Pages with fields that a language model may be asked for.")
    model: str | None = Field(description="The configured model; null if none is needed.")
    price_in_usd: Decimal | None = Field(description="Price of a million input tokens.")
    price_out_usd: Decimal | None = Field(description="Price of a million output tokens.")
    expected_usd: Decimal = Field(description="Cost if every page is full and its first answer right.")
    worst_usd: Decimal = Field(
        description="Maximum cost: two calls for every page, each as long as the settings allow; never above max_usd."
    )
    max_usd: Decimal | None = Field(description="The budget of the job.")
    via_usd: Decimal = Field(
        description="Price of one request for each page whose site is reached through the unblocking service. It counts"
        " towards the caps of the service, not towards max_usd."
    )
    warning: str | None = Field(description="Why the budget may not be what was meant.")


def estimate(job: ScrapeJob, model: LanguageModel | None, via_usd: Decimal = Decimal(0)) -> ScrapePlan:
    """Return the price of a job whose schemas are complete. Stored answers are free, but whether there is one is known
    only after its page was fetched."""
    described = sum(
        isinstance(each.page_schema, PageSchema) and bool(each.page_schema.described) for each in job.targets
    )
    asked = model if described else None
    expected = usd(described * asked.expected_page) if asked else Decimal(0)
    worst = usd(described * asked.worst_page) if asked else Decimal(0)
    budget = job.max_usd
    return ScrapePlan(
        pages=len(job.targets),
        described_pages=described,
        model=asked.name if asked else None,
        price_in_usd=asked.price_in if asked else None,
        price_out_usd=asked.price_out if asked else None,
        expected_usd=expected if budget is None else min(expected, budget),
        worst_usd=worst if budget is None else min(worst, budget),
        max_usd=budget,
        via_usd=via_usd,
        warning=_warning(budget, asked, expected),
    )


def _warning(budget: Decimal | None, model: LanguageModel | None, expected: Decimal) -> str | None:
    if budget is None or model is None:
        return None
    if budget < usd(model.worst_page):
        return (
            f"The budget of ${budget} is below ${usd(model.worst_page)}, which is reserved for one page:"
            " no question is sent. Raise it, or lower FORAGER_LLM_PAGE_BYTES."
        )
    if budget < expected:
        return f"The budget of ${budget} is below the estimate of ${expected}: pages that it does not pay for fail."
    return None
