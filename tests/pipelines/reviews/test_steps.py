"""Outcomes of each kind of Google's answers: value in, value out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest

from forager.core.errors import ForagerError, Permanent, RateLimited, Transient
from forager.core.http import Request, Response, SecretRef
from forager.core.outcome import Done
from forager.pipelines.reviews.pipeline import build
from forager.pipelines.reviews.records import Account, Location, Review
from forager.pipelines.reviews.steps import GoogleBusinessProfile
from forager.pipelines.reviews.tasks import AccountsPage, LocationsPage, ReviewsPage

GOOGLE = GoogleBusinessProfile()
PAGE = ReviewsPage(account_id="7001", location_id="88012")
RICH = {
    "name": "accounts/7001/locations/88012/reviews/AbV9q2",
    "reviewId": "AbV9q2",
    "reviewer": {"displayName": "A Google User", "isAnonymous": True},
    "starRating": "TWO",
    "comment": "Elevator out for a week.",
    "createTime": "2031-02-10T18:22:41.120Z",
    "updateTime": "2031-02-11T07:00:02.004511Z",
    "reviewReply": {"comment": "It is fixed now, sorry.", "updateTime": "2031-02-12T09:30:00Z"},
}


class Answer:
    """A `Fetch` with one answer, which records its requests."""

    def __init__(self, body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.asked: list[Request] = []
        self._answer = (body if isinstance(body, bytes) else orjson.dumps(body), status, headers or {})

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        body, status, headers = self._answer
        return Response(request.url, status, headers, body, datetime(2031, 3, 1, tzinfo=UTC), 12)


async def done(answer: Answer, task: ReviewsPage = PAGE) -> Done:
    outcome = await GOOGLE.reviews(task, answer)
    assert isinstance(outcome, Done)
    return outcome


def refused(status: int, message: str = "no", reason: str | None = None, **metadata: str) -> dict[str, Any]:
    details = [{"@type": "ErrorInfo", "reason": reason, "metadata": metadata}] if reason else []
    return {"error": {"code": status, "message": message, "details": details}}


async def test_each_stage_sends_its_requests_to_its_own_host_with_the_jobs_token__RV_11() -> None:
    accounts, locations, reviews = Answer({}), Answer({}), Answer({})
    await GOOGLE.accounts(AccountsPage(page_token="t"), accounts)
    await GOOGLE.locations(LocationsPage(account_id="7001"), locations)
    await GOOGLE.reviews(PAGE, reviews)
    asked = [each.asked[0] for each in (accounts, locations, reviews)]
    assert [request.url.partition("?")[0] for request in asked] == [
        "https://mybusinessaccountmanagement.googleapis.com/v1/accounts",
        "https://mybusinessbusinessinformation.googleapis.com/v1/accounts/7001/locations",
        "https://mybusiness.googleapis.com/v4/accounts/7001/locations/88012/reviews",
    ]
    queries = [parse_qs(urlsplit(request.url).query) for request in asked]
    assert [query["pageSize"] for query in queries] == [["20"], ["100"], ["50"]]
    assert queries[0]["pageToken"] == ["t"]
    assert "name" in queries[1]["readMask"][0].split(",")
    assert {request.auth for request in asked} == {SecretRef("access_token", prefix="Bearer ", of_job=True)}
    assert {request.max_redirects for request in asked} == {0}


async def test_a_review_has_the_fields_of_the_topic_and_googles_own_object__RV_9() -> None:
    (review,) = (await done(Answer({"reviews": [RICH]}))).records
    assert isinstance(review, Review)
    assert review.key() == "7001_88012_AbV9q2"
    assert review.model_dump(exclude={"review_key", "raw"}) == {
        "account_id": "7001",
        "location_id": "88012",
        "reviewId": "AbV9q2",
        "reviewer": RICH["reviewer"],
        "rating": 2,
        "text": "Elevator out for a week.",
        "createTime": "2031-02-10T18:22:41.120Z",
        "updateTime": "2031-02-11T07:00:02.004511Z",
        "reply": RICH["reviewReply"],
    }
    assert review.raw == RICH


async def test_a_rating_without_words_and_an_unspecified_rating_are_null__RV_9() -> None:
    bare = {"name": "accounts/7001/locations/88012/reviews/x", "starRating": "STAR_RATING_UNSPECIFIED"}
    (review,) = (await done(Answer({"reviews": [bare]}))).records
    assert isinstance(review, Review)
    assert (review.reviewId, review.rating, review.text, review.reply) == ("x", None, None, None)


async def test_accounts_become_tasks_for_their_locations_and_locations_for_their_reviews__RV_3() -> None:
    listed = Answer({"accounts": [{"name": "accounts/1", "accountName": "One"}, {"name": "accounts/2"}]})
    outcome = await GOOGLE.accounts(AccountsPage(), listed)
    assert isinstance(outcome, Done)
    assert [plan.task for plan in outcome.tasks] == [LocationsPage(account_id="1"), LocationsPage(account_id="2")]
    assert [type(record) for record in outcome.records] == [Account, Account]
    listed = Answer({"locations": [{"name": "locations/9", "title": "Here"}]})
    outcome = await GOOGLE.locations(LocationsPage(account_id="1"), listed)
    assert isinstance(outcome, Done)
    assert [plan.task for plan in outcome.tasks] == [ReviewsPage(account_id="1", location_id="9")]
    assert [record.key() for record in outcome.records] == ["1_9"]
    assert isinstance(outcome.records[0], Location)


async def test_a_next_page_is_a_task_of_its_own_and_no_token_is_the_end__RV_11() -> None:
    following = (await done(Answer({"reviews": [RICH], "nextPageToken": "Q2"}))).tasks
    assert [plan.task for plan in following] == [PAGE.model_copy(update={"page": 2, "page_token": "Q2"})]
    assert (await done(Answer({"reviews": [RICH]}))).tasks == []
    assert (await done(Answer({}))).records == []


async def test_a_page_that_names_itself_as_the_next_is_an_error_not_a_circle() -> None:
    with pytest.raises(Permanent, match="this very page"):
        await done(Answer({"nextPageToken": "Q2"}), PAGE.model_copy(update={"page": 2, "page_token": "Q2"}))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
async def test_any_4xx_but_429_is_permanent_with_googles_answer_kept__RV_6(status: int) -> None:
    with pytest.raises(Permanent, match=f"{status}: the caller") as raised:
        await done(Answer(refused(status, "the caller does not have permission"), status))
    assert raised.value.evidence is not None
    words = {401: "token_refused", 403: "forbidden", 404: "not_found"}
    assert (raised.value.reason, raised.value.error_type) == (words.get(status, "http_4xx"), "http")


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_5xx_may_pass__RV_6(status: int) -> None:
    with pytest.raises(Transient) as raised:
        await done(Answer(b"<html>", status))
    assert (raised.value.reason, raised.value.error_type) == ("http_5xx", "http")


async def test_a_429_waits_for_the_time_that_google_names__RV_6() -> None:
    quota = refused(429, "Quota exceeded", "RATE_LIMIT_EXCEEDED", quota_limit_value="300")
    with pytest.raises(RateLimited) as raised:
        await done(Answer(quota, 429, {"Retry-After": "7"}))
    assert raised.value.retry_after == 7.0


async def test_a_quota_of_zero_and_a_disabled_service_are_permanent_and_name_the_remedy__RV_6() -> None:
    quota = refused(429, "Quota exceeded", "RATE_LIMIT_EXCEEDED", quota_limit_value="0", service="mybusiness")
    with pytest.raises(Permanent, match=r"no quota for mybusiness.*Request access") as raised:
        await done(Answer(quota, 429))
    assert raised.value.reason == "quota_zero"
    disabled = refused(
        403, "has not been used", "SERVICE_DISABLED", service="mybusiness", activationUrl="https://g.co/x"
    )
    with pytest.raises(Permanent, match=r"not enabled.*https://g\.co/x") as raised:
        await done(Answer(disabled, 403))
    assert raised.value.reason == "service_disabled"


@pytest.mark.parametrize("body", [b"[]", b"nonsense", b'{"reviews": 3}'])
async def test_an_answer_that_is_not_a_page_is_permanent(body: bytes) -> None:
    with pytest.raises(Permanent) as raised:
        await done(Answer(body))
    assert raised.value.error_type == "parse"


async def test_every_reason_of_a_step_is_declared_by_the_pipeline() -> None:
    declared = build().reasons
    for status in (400, 401, 403, 404, 409, 500, 503):
        with pytest.raises(ForagerError) as raised:
            await done(Answer(refused(status), status))
        assert raised.value.reason in declared


async def test_a_row_that_cannot_be_identified_is_rejected_and_the_rest_of_its_page_kept__RV_9() -> None:
    outcome = await done(Answer({"reviews": [{"starRating": "ONE"}, RICH, "odd"]}))
    assert [record.key() for record in outcome.records] == ["7001_88012_AbV9q2"]
    assert [(each.record, each.payload) for each in outcome.rejected] == [
        (Review, {"starRating": "ONE"}),
        (Review, "odd"),
    ]
    assert all("name is not reviews/<id>" in each.reason for each in outcome.rejected)
