"""The simulated Google Business Profile on real ports: shapes, pages, tokens, quotas, and worlds by seed."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from forager.core.errors import Rejected
from forager.sandbox import Band, GoogleConfig, GoogleSandbox, Tenant, When
from forager.sandbox.google import GoogleWorld

MASK = "name,title,storefrontAddress,metadata.placeId"


class Client:
    """Asks as a program that reads the API documentation does."""

    def __init__(self, google: GoogleSandbox, session: aiohttp.ClientSession, token: str = "sandbox-acme") -> None:
        self.google, self.session, self.token = google, session, token

    async def get(self, url: str, **params: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.session.get(url, params=params, headers=headers) as got:
            body = await got.read()
            return got.status, json.loads(body) if "json" in got.content_type else {}, dict(got.headers)

    async def pages(self, url: str, rows: str, **params: Any) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = []
        more: dict[str, str] = {}
        while True:
            status, said, _ = await self.get(url, **params, **more)
            assert status == 200, said
            found.append(said.get(rows, []))
            if "nextPageToken" not in said:
                return found
            more = {"pageToken": said["nextPageToken"]}

    async def accounts(self) -> list[dict[str, Any]]:
        pages = await self.pages(f"{self.google.accounts_url}/v1/accounts", "accounts")
        return [row for page in pages for row in page]

    async def locations(self, account: str, **params: Any) -> list[dict[str, Any]]:
        url = f"{self.google.locations_url}/v1/{account}/locations"
        pages = await self.pages(url, "locations", **{"readMask": MASK, "pageSize": 100, **params})
        return [row for page in pages for row in page]

    def reviews_url(self, account: str, location: str) -> str:
        return f"{self.google.reviews_url}/v4/{account}/{location}/reviews"

    async def reviews(self, account: str, location: str, **params: Any) -> list[dict[str, Any]]:
        pages = await self.pages(self.reviews_url(account, location), "reviews", **{"pageSize": 50, **params})
        return [row for page in pages for row in page]


@asynccontextmanager
async def google_with(now: Any = None, **knobs: Any) -> AsyncIterator[Client]:
    config = GoogleConfig(**{"quota_per_minute": None, **knobs})
    async with GoogleSandbox(config, now=now) as google, aiohttp.ClientSession() as session:
        yield Client(google, session)


def exact(reviews: int, **knobs: Any) -> Tenant:
    return Tenant(reviews=(Band(1.0, reviews, reviews),), **knobs)


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


async def test_tenants_have_worlds_of_their_own_and_no_access_to_others() -> None:
    async with google_with(tenants={"big": Tenant(accounts=7, empty_accounts=0)}) as client:
        mine = await client.accounts()
        client.token = "sandbox-big"
        theirs = await client.accounts()
        assert (len(mine), len(theirs)) == (4, 7)
        assert not {row["name"] for row in mine} & {row["name"] for row in theirs}
        status, said, _ = await client.get(
            f"{client.google.locations_url}/v1/{mine[0]['name']}/locations", readMask="name"
        )
        assert (status, said["error"]["message"]) == (403, "The caller does not have permission")
        client.token = "sandbox-acme.9"
        assert await client.accounts() == mine, "a new token of the same tenant opens the same world"


@pytest.mark.parametrize(
    ("token", "reason", "begin"),
    [
        ("", "CREDENTIALS_MISSING", "Request is missing"),
        ("ya29.real-looking", "ACCESS_TOKEN_TYPE_UNSUPPORTED", "Request had invalid"),
    ],
)
async def test_a_missing_or_foreign_token_is_a_401_and_is_not_logged(token: str, reason: str, begin: str) -> None:
    async with google_with() as client:
        client.token = token
        status, said, _ = await client.get(f"{client.google.accounts_url}/v1/accounts")
        assert (status, said["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert said["error"]["message"].startswith(begin)
        assert said["error"]["details"][0]["reason"] == reason
        assert "real-look" not in "".join(call.json().decode() for call in client.google.log)


async def test_a_token_that_expires_in_the_middle_is_refreshed_and_the_page_token_still_works() -> None:
    async with google_with(default=exact(160, expires_after=4)) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        url = client.reviews_url(account, location)
        _, first, _ = await client.get(url, pageSize=50)
        _, second, _ = await client.get(url, pageSize=50, pageToken=first["nextPageToken"])
        status, said, _ = await client.get(url, pageSize=50, pageToken=second["nextPageToken"])
        assert (status, said["error"]["details"][0]["reason"]) == (401, "ACCESS_TOKEN_EXPIRED")
        form = {
            "grant_type": "refresh_token",
            "refresh_token": "1//sandbox-acme",
            "client_id": "c",
            "client_secret": "s",
        }
        async with client.session.post(client.google.token_url, data=form) as got:
            fresh = await got.json()
        assert set(fresh) == {"access_token", "expires_in", "scope", "token_type"}
        client.token = fresh["access_token"]
        assert (await client.get(url, pageSize=50, pageToken=second["nextPageToken"]))[0] == 200
        async with client.session.post(client.google.token_url, data={**form, "refresh_token": "1//dead"}) as got:
            assert (got.status, (await got.json())["error"]) == (400, "invalid_grant")


async def test_a_token_lives_an_hour_of_the_world_s_time_and_can_be_ended() -> None:
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    async with google_with(now=lambda: moment) as client:
        url = f"{client.google.accounts_url}/v1/accounts"
        assert (await client.get(url))[0] == 200
        moment += timedelta(hours=1, seconds=1)
        assert (await client.get(url))[0] == 401
        client.token = "sandbox-acme.2"
        assert (await client.get(url))[0] == 200
        async with client.session.post(
            f"{client.google.accounts_url}/_sandbox/expire", json={"token": "sandbox-acme.2"}
        ) as got:
            assert got.status == 200
        assert (await client.get(url))[0] == 401
        assert client.google.log.calls("accounts.list")[0].wall == datetime(2031, 1, 1, tzinfo=UTC).timestamp()


async def test_each_service_has_a_quota_per_minute_and_project() -> None:
    moment = datetime(2031, 1, 1, tzinfo=UTC)
    tenants = {"other": Tenant(project="999")}
    async with google_with(now=lambda: moment, quota_per_minute=5, retry_after="300", tenants=tenants) as client:
        url = f"{client.google.accounts_url}/v1/accounts"
        answers = await asyncio.gather(*(client.get(url) for _ in range(7)))
        assert sorted(status for status, _, _ in answers) == [200] * 5 + [429] * 2
        _, said, headers = next(answer for answer in answers if answer[0] == 429)
        info = said["error"]["details"][0]
        assert (said["error"]["status"], info["reason"]) == ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED")
        assert (info["metadata"]["quota_limit_value"], headers["Retry-After"]) == ("5", "300")
        account = client.google.world("acme").account_id(0)
        locations = f"{client.google.locations_url}/v1/accounts/{account}/locations"
        assert (await client.get(locations, readMask="name"))[0] == 200, "another service, another quota"
        client.token = "sandbox-other"
        assert (await client.get(url))[0] == 200, "another project, another quota"
        client.token = "sandbox-acme"
        moment += timedelta(seconds=61)
        assert (await client.get(url))[0] == 200


async def test_a_project_that_was_never_approved_has_a_quota_of_zero() -> None:
    async with google_with(quota_per_minute=0) as client:
        status, said, headers = await client.get(f"{client.google.accounts_url}/v1/accounts")
        assert (status, said["error"]["details"][0]["metadata"]["quota_limit_value"]) == (429, "0")
        assert "Retry-After" not in headers


async def test_a_service_that_is_not_enabled_says_so_on_its_own_host_alone() -> None:
    async with google_with(default=Tenant(disabled=("reviews",))) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        status, said, _ = await client.get(client.reviews_url(account, location))
        info = said["error"]["details"][0]
        assert (status, info["reason"]) == (403, "SERVICE_DISABLED")
        assert info["metadata"]["service"] == "mybusiness.googleapis.com"


async def test_some_locations_are_forbidden_and_some_are_gone() -> None:
    tenant = exact(3, accounts=1, empty_accounts=0, locations=12, denied_every=4, gone_every=6)
    async with google_with(default=tenant) as client:
        (account,) = [row["name"] for row in await client.accounts()]
        urls = [client.reviews_url(account, row["name"]) for row in await client.locations(account)]
        statuses = [(await client.get(url))[0] for url in urls]
        assert [statuses.count(each) for each in (200, 403, 404)] == [8, 2, 2]
        assert len({name.location for name in client.google.world("acme").expected()}) == 8


@pytest.mark.parametrize(
    ("fault", "status", "word"),
    [
        ("http401", 401, "UNAUTHENTICATED"),
        ("http403", 403, "PERMISSION_DENIED"),
        ("http404", 404, "NOT_FOUND"),
        ("http429", 429, "RESOURCE_EXHAUSTED"),
        ("quota_zero", 429, "RESOURCE_EXHAUSTED"),
        ("service_disabled", 403, "PERMISSION_DENIED"),
        ("http500", 500, "INTERNAL"),
        ("http503", 503, "UNAVAILABLE"),
    ],
)
async def test_scripted_errors_have_google_s_envelope(fault: str, status: int, word: str) -> None:
    script = (When(fault, operation="locations.list", page=2),)
    async with google_with(script=script, default=Tenant(accounts=1, locations=250)) as client:
        account = (await client.accounts())[0]["name"]
        url = f"{client.google.locations_url}/v1/{account}/locations"
        _, first, _ = await client.get(url, readMask="name", pageSize=100)
        token = first["nextPageToken"]
        got, said, _ = await client.get(url, readMask="name", pageSize=100, pageToken=token)
        assert (got, said["error"]["status"], said["error"]["code"]) == (status, word, status)
        assert (await client.get(url, readMask="name", pageSize=100, pageToken=token))[0] == 200
        assert [call.fault for call in client.google.log] == [None, None, fault, None]


async def test_paths_of_one_api_are_unknown_to_the_others() -> None:
    async with google_with() as client:
        for url in (
            f"{client.google.reviews_url}/v1/accounts",
            f"{client.google.locations_url}/v1/accounts",
            f"{client.google.accounts_url}/v4/accounts/1/locations/2/reviews",
            f"{client.google.reviews_url}/v4/locations/2/reviews",
        ):
            async with client.session.get(url, headers={"Authorization": "Bearer sandbox-acme"}) as got:
                assert (got.status, got.content_type) == (404, "text/html")


@pytest.mark.parametrize("change", [{"pageToken": "nonsense"}, {"orderBy": "title"}])
async def test_a_page_token_is_good_for_its_own_listing_alone(change: dict[str, str]) -> None:
    async with google_with(default=Tenant(locations=60)) as client:
        account = (await client.accounts())[0]["name"]
        url = f"{client.google.locations_url}/v1/{account}/locations"
        _, first, _ = await client.get(url, readMask="name")
        asked = {"readMask": "name", "pageToken": first["nextPageToken"], **change}
        assert (await client.get(url, **asked))[0] == 400


async def test_an_oversized_page_is_cut_or_refused() -> None:
    async with google_with(default=exact(120)) as client:
        account = (await client.accounts())[0]["name"]
        location = (await client.locations(account))[0]["name"]
        _, said, _ = await client.get(client.reviews_url(account, location), pageSize=500)
        assert len(said["reviews"]) == 50
    async with google_with(default=exact(120), oversized_page="refuse") as client:
        assert (await client.get(client.reviews_url(account, location), pageSize=500))[0] == 400


def test_a_world_of_ten_thousand_locations_needs_no_memory_per_location() -> None:
    world = GoogleWorld(7, "acme", Tenant(accounts=5, locations=10_000))
    listed = [number for account in range(5) for number in world.locations_of(account)]
    assert len(set(listed)) == 10_000
    assert world.location_number(world.location_id(9_999)) == 9_999
    assert world.location_number(world.location_id(10_000)) is None
    assert world.location(77) == GoogleWorld(7, "acme", Tenant(accounts=5, locations=10_000)).location(77)
    assert world.location(77) != GoogleWorld(8, "acme", Tenant(accounts=5, locations=10_000)).location(77)


@pytest.mark.parametrize(
    "changes",
    [
        {"flood": 1},
        {"default": {"accounts": 0}},
        {"default": {"colour": 1}},
        {"tenants": {"a": {"disabled": ["photos"]}}},
        {"script": [{"fault": "flood"}]},
        {"faults": {"http500": 2}},
        {"repeat_share": 7},
        {"latency_ms": "fast"},
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(changes: dict[str, Any]) -> None:
    with pytest.raises(Rejected):
        GoogleConfig().changed(changes)


def test_settings_are_read_from_json() -> None:
    config = GoogleConfig().changed(
        {"tenants": {"big": {"locations": 2000, "reviews": [[1.0, 5, 5]]}}, "script": [{"fault": "http500"}]}
    )
    assert config.tenant("big").locations == 2000
    assert config.tenant("other").locations == 20
    assert config.script[0].fault == "http500"
