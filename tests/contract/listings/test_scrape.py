"""A scrape of one market through Apify, on both stores."""

from tests.support.listings import Rentals


async def test_a_scrape_stores_the_listings_and_counts_itself__LI_7(rentals: Rentals) -> None:
    job = await rentals.scrape("boston")

    market = await rentals.market("boston")
    listed = rentals.apify.world.listings("Boston, MA", rentals.apify.time.seconds())
    assert (job["state"], job["failed"]) == ("completed", 0), job
    assert market["last_scrape_status"] == "completed"
    assert market["consecutive_failures"] == 0
    (scrape,) = market["scrapes"]
    assert scrape["found"] == scrape["normalised"] == len(listed)
    assert scrape["new"] == market["listings_active"]
    assert float(scrape["cost_usd"]) == rentals.apify.spent() > 0
    found = await rentals.get("/listings", market="boston", limit=100)
    assert len(found) == market["listings_active"]
    assert {each["badge"]["text"] for each in found} == {"Recently verified"}
