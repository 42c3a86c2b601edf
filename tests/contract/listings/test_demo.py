"""The demo: a simulated fortnight, in which the books agree with the upstream's."""

from pathlib import Path

import pytest

from forager.cli.demos import listings


async def test_a_fortnight_of_the_demo_agrees_with_the_upstream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "DAYS", 2)
    found = await listings._fortnight(tmp_path / "home")

    costs = sum(float(market["cost_this_month_usd"]) for market in found["markets"])
    assert round(costs, 4) == found["spent_usd"] > 0
    assert {each["market_id"] for each in found["listings"]} == set(listings.MARKETS)
    assert all(each["badge"] for each in found["listings"])
