"""A job of listings: the scrape of one market, or a piece of upkeep."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from forager.pipelines.listings.tasks import ScrapedMarket, UpkeepAction


class NewRate(BaseModel):
    """A market whose listings age at another rate from now on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    market_id: str
    rate: int = Field(ge=1, le=100, description="Points of confidence per hour.")


class Split(BaseModel):
    """A source that was merged into the wrong listing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_key: str
    listing_key: str


class ListingsJob(BaseModel):
    """Markets are scraped by `forager markets scrape` and by the schedule `dispatch_scrapes`, which fill this in."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"action": "dispatch_scrapes"},
                {
                    "action": "scrape",
                    "scrape": {"market_id": "nyc", "city": "New York", "state": "NY", "since": "2026-03-01T06:00:00Z"},
                },
            ]
        },
    )

    action: UpkeepAction | Literal["scrape", "verify", "retier", "split"] = Field(
        description="The piece of upkeep. `verify` is the standing job of verifications.", examples=["dispatch_scrapes"]
    )
    scrape: ScrapedMarket | None = Field(None, description="The market, if it is scraped.")
    retier: NewRate | None = Field(None, description="The market, if its tier has changed.")

    split: Split | None = Field(None, description="The merge that is to be undone.")

    @model_validator(mode="after")
    def _names_its_market(self) -> Self:
        if (self.action == "scrape") != (self.scrape is not None):
            raise ValueError("`scrape` belongs to the action scrape, and to no other")
        if (self.action == "retier") != (self.retier is not None):
            raise ValueError("`retier` belongs to the action retier, and to no other")
        if (self.action == "split") != (self.split is not None):
            raise ValueError("`split` belongs to the action split, and to no other")
        return self
