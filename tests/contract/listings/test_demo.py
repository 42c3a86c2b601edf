"""The demo: a simulated fortnight, in which the books agree with the upstream's."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forager.pipelines.listings import demo as listings


async def test_a_fortnight_of_the_demo_agrees_with_the_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "DAYS", 2)
    found = await listings._fortnight(tmp_path / "home")

    assert round(found["cost_usd"], 4) == found["spent_usd"] > 0
    assert {each["market_id"] for each in found["listings"]} == set(listings.MARKETS)
    assert all(each["badge"] for each in found["listings"])
    now = datetime.now(UTC)
    seen = [datetime.fromisoformat(market["last_scrape_at"]) for market in found["markets"]]
    assert all(now - timedelta(days=1, hours=2) < each <= now for each in seen), (
        "the demo's home is stale or of the future"
    )
