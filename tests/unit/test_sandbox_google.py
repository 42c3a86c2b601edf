"""The simulated Google Business Profile on real ports: shapes, pages, and worlds that change while they are read."""

from typing import Any

import pytest

from forager.sandbox import Tenant
from tests.support.sandbox_google import exact, google_with


async def test_a_full_read_finds_exactly_what_the_world_has() -> None:
    async with google_with(default=Tenant(accounts=4, locations=60)) as client:
        found: set[tuple[str, str, str]] = set()
        for account in await client.accounts():
            for location in await client.locations(account["name"]):
                for review in await client.reviews(account["name"], location["name"]):
                    _, a, _, loc, _, key = review["name"].split("/")
                    found.add((a, loc, key))
        world = client.google.world("acme")
        missing = client.google.config.missing_share
        assert found == set(world.expected(missing_share=missing))
        assert len(found) < len(set(world.expected())) < 12_000


async def test_accounts_begin_with_the_personal_one_and_come_in_pages_of_twenty() -> None:
    async with google_with(default=Tenant(accounts=44, empty_accounts=1)) as client:
        pages = await client.pages(f"{client.google.accounts_url}/v1/accounts", "accounts", pageSize=100)
        assert [len(page) for page in pages] == [20, 20, 5]
        rows = [row for page in pages for row in page]
        assert [row["type"] for row in rows] == ["PERSONAL"] + ["LOCATION_GROUP"] * 44
        assert len({row["name"] for row in rows}) == 45
        assert set(rows[1]) >= {"name", "accountName", "type", "role", "verificationState", "vettedState"}


async def test_an_account_without_locations_answers_an_empty_object() -> None:
    async with google_with() as client:
        last = (await client.accounts())[-1]["name"]
        status, said, _ = await client.get(f"{client.google.locations_url}/v1/{last}/locations", readMask="name")
        assert (status, said) == (200, {})


async def test_a_location_has_only_the_fields_of_the_mask_and_no_account_in_its_name() -> None:
    async with google_with() as client:
        account = (await client.accounts())[0]["name"]
        rows = await client.locations(account)
        assert all(set(row) <= {"name", "title", "storefrontAddress", "metadata"} for row in rows)
        assert all(set(row["metadata"]) == {"placeId"} for row in rows)
        assert all(row["name"].startswith("locations/") for row in rows)
        assert any("storefrontAddress" not in row for row in await client.locations("accounts/" + account[9:]))


@pytest.mark.parametrize("mask", [None, "", "name,attributes", "businessHours", "nonsense"])
async def test_a_missing_or_wrong_mask_is_refused_with_the_field(mask: str | None) -> None:
    async with google_with() as client:
        account = (await client.accounts())[0]["name"]
        params = {} if mask is None else {"readMask": mask}
        status, said, _ = await client.get(f"{client.google.locations_url}/v1/{account}/locations", **params)
        assert (status, said["error"]["status"]) == (400, "INVALID_ARGUMENT")
        assert said["error"]["details"][0]["fieldViolations"][0]["field"] == "read_mask"


async def test_a_shared_location_is_listed_under_two_accounts() -> None:
    async with google_with(default=Tenant(accounts=3, locations=30, shared_every=10)) as client:
        listed = [
            {row["name"] for row in await client.locations(account["name"])} for account in await client.accounts()
        ]
        assert len(listed[0] & (listed[1] | listed[2])) == 2
        assert len(set().union(*listed)) == 30


async def test_reviews_have_star_words_replies_and_leave_out_what_is_empty() -> None:
    async with google_with(default=exact(160, locations=6)) as client:
        account = (await client.accounts())[0]["name"]
        rows = [
            review
            for location in await client.locations(account)
            for review in await client.reviews(account, location["name"])
        ]
        assert {row["starRating"] for row in rows} == {"ONE", "TWO", "THREE", "FOUR", "FIVE"}
        assert any("comment" not in row for row in rows)
        assert any(row.get("comment", "").startswith("(Translated by Google)") for row in rows)
        assert any(set(row.get("reviewReply", {})) == {"comment", "updateTime"} for row in rows)
        hidden = [row["reviewer"] for row in rows if row["reviewer"].get("isAnonymous")]
        assert {frozenset(each) for each in hidden} == {frozenset(("displayName", "isAnonymous"))}
        assert all("" not in row.values() and None not in row.values() for row in rows)
        digits = {len(row["updateTime"].partition(".")[2].rstrip("Z")) for row in rows}
        assert digits == {0, 3, 6, 9}


async def test_pages_of_reviews_repeat_and_miss_rows_while_the_total_stays() -> None:
    knobs = {"default": exact(120, locations=9), "repeat_share": 1.0, "missing_share": 0.2}
    async with google_with(**knobs) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        pages = await client.pages(client.reviews_url(account, location), "reviews", pageSize=50)
        assert len(pages) == 3
        assert len(pages[0]) == 50
        rows = [row["reviewId"] for page in pages for row in page]
        assert len(set(rows)) < 120
        _, said, _ = await client.get(client.reviews_url(account, location))
        assert said["totalReviewCount"] == 120
        assert 1 < said["averageRating"] < 5
    async with google_with(**{**knobs, "missing_share": 0.0}) as client:
        rows = [row["reviewId"] for row in await client.reviews(account, location)]
        assert (len(rows), len(set(rows))) == (122, 120)


async def test_reviews_come_last_updated_first_or_by_rating() -> None:
    async with google_with(default=exact(60), repeat_share=0, missing_share=0) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        times = [row["updateTime"][:19] for row in await client.reviews(account, location)]
        assert times == sorted(times, reverse=True)
        words = ["ONE", "TWO", "THREE", "FOUR", "FIVE"]
        stars = [words.index(row["starRating"]) for row in await client.reviews(account, location, orderBy="rating")]
        assert stars == sorted(stars)
        assert (await client.get(client.reviews_url(account, location), orderBy="color"))[0] == 400


async def test_a_location_without_reviews_answers_an_empty_object() -> None:
    async with google_with(default=exact(0)) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        assert (await client.get(client.reviews_url(account, location)))[:2] == (200, {})


async def test_an_edit_between_two_pages_repeats_a_review_and_a_deletion_hides_one() -> None:
    async with google_with(default=exact(120), repeat_share=0, missing_share=0) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        url = client.reviews_url(account, location)
        before = [row["reviewId"] for row in await client.reviews(account, location)]
        for kind, position, overlap, seen in (("edit", -1, 1, 120), ("delete", 0, 0, 119), ("add", 0, 1, 119)):
            _, first, _ = await client.get(url, pageSize=50)
            client.google.change("acme", location.split("/")[1], kind, position)
            rest: list[dict[str, Any]] = []
            token = first["nextPageToken"]
            while token:
                _, said, _ = await client.get(url, pageSize=50, pageToken=token)
                rest += said.get("reviews", [])
                token = said.get("nextPageToken", "")
            first_ids = {row["reviewId"] for row in first["reviews"]}
            rest_ids = {row["reviewId"] for row in rest}
            assert len(first_ids & rest_ids) == overlap, kind
            assert len(first_ids | rest_ids) == seen - (kind == "edit"), kind
        after = [row["reviewId"] for row in await client.reviews(account, location)]
        assert (after[1], len(after)) == (before[0] if before[0] in after else before[-1], 120)


async def test_drift_changes_the_world_while_it_is_read_and_the_shown_reviews_are_recorded() -> None:
    async with google_with(default=exact(160, locations=12), drift_share=1.0, record_shown=True) as client:
        account = (await client.accounts())[0]["name"]
        locations = [row["name"] for row in await client.locations(account)]
        first = {row["name"] for name in locations for row in await client.reviews(account, name)}
        assert first == client.google.shown["acme"]
        second = {row["name"] for name in locations for row in await client.reviews(account, name)}
        assert second - first, "reviews that were added during the first read, and such as it missed"
        assert first - second, "reviews that were deleted during the first read"
        assert first | second == client.google.shown["acme"]


async def test_one_review_is_read_answered_and_unanswered() -> None:
    async with google_with(default=exact(3)) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        name = (await client.reviews(account, location))[0]["name"]
        url, headers = f"{client.google.reviews_url}/v4/{name}", {"Authorization": "Bearer sandbox-acme"}
        async with client.session.put(f"{url}/reply", json={"comment": "Thanks"}, headers=headers) as got:
            assert (got.status, (await got.json())["comment"]) == (200, "Thanks")
        assert (await client.get(url))[1]["reviewReply"]["comment"] == "Thanks"
        async with client.session.put(f"{url}/reply", json={"comment": "x" * 4097}, headers=headers) as got:
            assert got.status == 400
        async with client.session.delete(f"{url}/reply", headers=headers) as got:
            assert await got.json() == {}
        assert "reviewReply" not in (await client.get(url))[1]
        assert (await client.get(url + "x"))[0] == 404
