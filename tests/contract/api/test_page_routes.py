"""Routes for the pages of the pipelines, in addition to lists: points of maps, coverage, rents, facets, trees."""

from pathlib import Path

from tests.support.api import open_front
from tests.support.listings import open_rentals
from tests.support.reviews import open_reviews
from tests.support.shop import open_shop


async def test_rents_of_up_to_a_hundred_listings_and_points_with_the_filters_of_the_search(tmp_path: Path) -> None:
    async with open_rentals(tmp_path) as rentals:
        await rentals.keep_only("nyc")
        await rentals.scrape("nyc")
        listings = await rentals.get("/listings", limit=1000)
        found = await rentals.get("/listings/map")
        assert len(found["points"]) + found["without_place"] == len(listings)
        assert {each["id"]: each["badge"] for each in found["points"]}.items() <= {
            each["id"]: each["badge"] for each in listings
        }.items()
        cheap = min(each["rent_min"] for each in listings if each["rent_min"])
        few = await rentals.get("/listings/map", max_rent=cheap)
        assert 0 < len(few["points"]) < len(found["points"])
        one = listings[0]
        (told,) = await rentals.get("/listings/rents", id=[one["id"], 10**9])
        assert told["rents"] == (await rentals.get(f"/listings/{one['id']}/history"))["rents"]
        most = list(range(1, 101))
        assert (await rentals.client.get("/api/v1/listings/rents", params={"id": most})).status_code == 200
        refused = await rentals.client.get("/api/v1/listings/rents", params={"id": [*most, 101]})
        assert (refused.status_code, [each["field"] for each in refused.json()["meta"]["fields"]]) == (422, ["id"])


async def test_coverage_shows_where_more_pages_would_find_more_places(tmp_path: Path) -> None:
    async with open_front(tmp_path) as front:
        nothing = await front.client.get("/api/v1/places/coverage")
        assert (nothing.status_code, nothing.json()["error"]) == (404, "There is no places job yet.")
        job = await front.create(keyword="bars", state="AZ", pages=1)
        assert {each["state"] for each in (await front.data("/api/v1/places/coverage"))["zips"]} == {"open"}
        await front.work()
        coverage = await front.data("/api/v1/places/coverage", job=job)
        assert coverage["job_id"] == job
        assert [each["zip"] for each in coverage["zips"]] == ["85001", "85002", "85003"]
        for each in coverage["zips"]:
            assert each["state"] == ("cut_off" if each["full"] == each["pages"] == 1 else "complete")
        assert "cut_off" in {each["state"] for each in coverage["zips"]}, "the simulated ZIPs are full"
        points = await front.data("/api/v1/places/map", zip="85001")
        listed = await front.data("/api/v1/places", zip="85001", limit=100)
        at = points["columns"].index("place_uid")
        assert {point[at] for point in points["points"]} == {
            place["place_uid"] for place in listed if place["latitude"] is not None
        }


async def test_facets_count_what_the_filters_leave_and_changes_show_both_values(tmp_path: Path) -> None:
    async with open_shop(tmp_path, pages=20, categories=2, change_days=(1.0, 1.0), price_share=0.5) as shop:
        await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
        assert await shop.get("/products/changes") == [], "a product that is new has not changed"
        before = {each["id"]: each for each in await shop.get("/products", limit=100)}
        shop.site.time.advance(2 * 86_400)
        await shop.crawl(sitemap=shop.site.url("/sitemap.xml"))
        after = {each["id"]: each for each in await shop.get("/products", limit=100)}
        told = await shop.get("/products/changes", limit=200)
        prices = {each["product_id"]: field for each in told for field in each["fields"] if field["field"] == "price"}
        assert set(prices) == {number for number in after if after[number]["price"] != before[number]["price"]}
        for number, field in prices.items():
            assert (float(field["before"]), float(field["now"])) == (
                float(before[number]["price"]),
                float(after[number]["price"]),
            )
        everything = await shop.get("/products/facets")
        assert everything["total"] == 20
        brand, count = everything["facets"]["brand"][0]
        narrowed = await shop.get("/products/facets", brand=brand)
        assert (narrowed["total"], narrowed["facets"]["brand"]) == (count, [[brand, count]])


async def test_the_tree_of_a_reviews_job_adds_up_to_its_counts(tmp_path: Path) -> None:
    async with open_reviews(tmp_path, locations=5) as service:
        job = await service.fetch()
        await service.work()
        seen = await service.seen(job)
        path = f"/api/v1/review-fetch/{job}"
        tree = (await service.client.get(f"{path}/tree")).json()["data"]
        places = [(account["account_id"], place) for account in tree for place in account["locations"]]
        assert (len(tree), len(places)) == (seen["accounts"], seen["locations"])
        assert sum(place["reviews"] for _, place in places) == seen["reviews"]
        stars = (await service.client.get(f"{path}/ratings")).json()["data"]["stars"]
        assert 0 < sum(stars.values()) <= seen["reviews"]
        account, place = max(places, key=lambda each: each[1]["reviews"])
        query = {"account": account, "location": place["location_id"], "limit": 1000}
        listed = (await service.client.get(f"{path}/reviews", params=query)).json()["data"]
        assert len(listed) == place["reviews"]
        five = (await service.client.get(f"{path}/reviews", params={**query, "rating": 5})).json()["data"]
        assert {each["rating"] for each in five} == {5}
        assert len(five) == sum(each["rating"] == 5 for each in listed)
        for wrong in (0, 6):
            refused = await service.client.get(f"{path}/reviews", params={"rating": wrong})
            assert refused.status_code == 422
