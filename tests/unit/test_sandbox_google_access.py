"""Access to the simulated Google Business Profile: tenants, tokens, quotas, refusals, settings."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from forager.core.errors import Rejected
from forager.sandbox import GoogleConfig, Tenant, When
from forager.sandbox.google import GoogleWorld
from tests.support.sandbox_google import exact, google_with


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


async def test_a_disabled_service_reports_that_on_its_own_host_alone() -> None:
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
