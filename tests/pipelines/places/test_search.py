"""Outcomes of each kind of answer: value in, value out."""

import orjson
import pytest

from forager.core.errors import Permanent, RateLimited, TimedOut, Transient
from forager.core.http import Request, Response, SecretRef
from forager.core.outcome import Done, Halt
from forager.pipelines.places.job import Query
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.steps import Serper

from .conftest import Answer, Recorded, Refusal, Rows

QUERY = Query(keyword="bars", zip="85001", page=1, pages=3, state="AZ")
search = Serper().search


async def done(answer: Answer, query: Query = QUERY) -> Done:
    outcome = await search(query, answer)
    assert isinstance(outcome, Done)
    return outcome


async def test_the_request_is_the_one_that_serper_documents__PL_8(rows: Rows) -> None:
    answer = rows(10)
    await Serper(base_url="http://127.0.0.1:9/", timeout=7.5).search(QUERY.model_copy(update={"page": 2}), answer)
    [request] = answer.asked
    assert (request.method, request.url, request.timeout) == ("POST", "http://127.0.0.1:9/places", 7.5)
    assert orjson.loads(request.body or b"") == {"q": "85001 bars", "page": 2, "num": 10}
    assert request.auth == SecretRef("SERPER_API_KEY", header="X-API-KEY")
    assert request.headers["Content-Type"] == "application/json"


async def test_every_place_of_a_page_is_stored_with_its_sighting__PL_9(recorded: Recorded) -> None:
    outcome = await done(recorded("ten-rich-rows"))
    assert [type(record) for record in outcome.records] == [Place, Sighting] * 10
    assert outcome.cost == 1
    assert outcome.facts == {"api_status": 200, "api_ms": 412, "results_count": 10}
    assert outcome.skip == ()


async def test_a_sighting_has_the_columns_of_the_seed__PL_13(recorded: Recorded) -> None:
    sighting = (await done(recorded("ten-rich-rows"))).records[1]
    assert isinstance(sighting, Sighting)
    told = sighting.model_dump(exclude={"payload"})
    assert told == {
        "source": "serper_places",
        "source_version": "v1",
        "keyword": "bars",
        "state": "AZ",
        "zip": "85001",
        "page": 1,
        "position": 1,
        "place_uid": "14820037715560284417",
        "api_status": 200,
        "api_ms": 412,
        "results_count": 10,
        "credits": 1,
        "error": None,
    }


async def test_a_cid_beside_a_place_id_becomes_another_name_of_the_place__PL_13(recorded: Recorded) -> None:
    found = [record for record in (await done(recorded("ten-rich-rows"))).records if isinstance(record, Place)]
    assert (found[1].key(), found[1].other_keys()) == ("ChIJexample0001Qk2R", ("14820037715560292336",))
    assert (found[0].key(), found[0].other_keys()) == ("14820037715560284417", ())


async def test_a_short_page_skips_the_rest_of_its_zip__PL_10(recorded: Recorded) -> None:
    outcome = await done(recorded("seven-poor-rows"))
    assert [(skip.key, skip.reason, skip.message) for skip in outcome.skip] == [
        ("85001/2", "early_exit", "early_exit_page1_lt10"),
        ("85001/3", "early_exit", "early_exit_page1_lt10"),
    ]


@pytest.mark.parametrize(("count", "skipped"), [(0, 1), (9, 1), (10, 0), (11, 0)])
async def test_only_fewer_than_ten_results_end_a_zip__PL_10(rows: Rows, count: int, skipped: int) -> None:
    outcome = await done(rows(count), QUERY.model_copy(update={"page": 2}))
    assert [skip.key for skip in outcome.skip] == ["85001/3"][:skipped]
    assert all(skip.message == "early_exit_page2_lt10" for skip in outcome.skip)


async def test_a_short_last_page_has_nothing_to_skip__PL_10(rows: Rows) -> None:
    assert (await done(rows(3), QUERY.model_copy(update={"page": 3}))).skip == ()


async def test_a_row_that_cannot_be_kept_still_counts_as_a_result__PL_10() -> None:
    places = [{"title": f"Place {n}"} for n in range(9)] + [{"address": "nothing to identify it by"}]
    outcome = await done(Answer(orjson.dumps({"places": places, "credits": 1})))
    assert len(outcome.records) == 18
    assert outcome.facts["results_count"] == 10
    assert outcome.skip == ()


@pytest.mark.parametrize("body", [b'{"places":[],"credits":1}', b'{"credits":1}', b'{"places":null,"credits":1}'])
async def test_no_places_is_a_completed_query_with_no_results__PL_9(body: bytes) -> None:
    outcome = await done(Answer(body))
    assert outcome.records == []
    assert outcome.facts["results_count"] == 0
    assert outcome.cost == 1
    assert len(outcome.skip) == 2


@pytest.mark.parametrize("said", ["", ',"credits":null', ',"credits":"1"', ',"credits":-1', ',"credits":true'])
async def test_an_answer_without_credits_leaves_the_cost_open__PL_11(said: str) -> None:
    outcome = await done(Answer(b'{"places":[{"title":"A","cid":"1"}]' + said.encode() + b"}"))
    assert outcome.cost is None
    assert outcome.records[1].model_dump()["credits"] is None


@pytest.mark.parametrize(("status", "message"), [(403, "Unauthorized."), (401, "Unauthorized.")])
async def test_a_refused_key_pauses_the_job_and_names_the_remedy__PL_9(
    refusal: Refusal, status: int, message: str
) -> None:
    outcome = await search(QUERY, refusal(status, message))
    assert outcome == Halt(
        f"Serper refused the API key ({status}: Unauthorized). Set SERPER_API_KEY to a valid key and resume the job."
    )


@pytest.mark.parametrize("message", ["Not enough credits", "not enough credits."])
async def test_no_credits_left_pauses_the_job_and_names_the_remedy__PL_9(refusal: Refusal, message: str) -> None:
    outcome = await search(QUERY, refusal(400, message))
    assert isinstance(outcome, Halt)
    assert "no credits left" in outcome.reason
    assert "resume the job" in outcome.reason


@pytest.mark.parametrize(
    ("status", "message"), [(400, "Missing query parameter"), (402, "Not enough credits"), (404, "Cannot POST /places")]
)
async def test_any_other_4xx_fails_with_the_upstreams_message__PL_9(
    refusal: Refusal, status: int, message: str
) -> None:
    with pytest.raises(Permanent) as caught:
        await search(QUERY, refusal(status, message))
    assert f"{status}: {message}" in caught.value.message
    assert caught.value.evidence is not None
    assert message.encode() in caught.value.evidence.body
    assert caught.value.cost == 0
    assert caught.value.facts == {"api_status": status, "api_ms": 412}


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"Retry-After": "Wed, 04 Mar 2026 09:00:30 GMT"}, 30.0),
        ({"Retry-After": "Wed, 04 Mar 2026 08:00:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
    ],
)
async def test_a_429_slows_the_lane_and_obeys_a_retry_after__PL_9(
    refusal: Refusal, headers: dict[str, str], wait: float | None
) -> None:
    with pytest.raises(RateLimited) as caught:
        await search(QUERY, refusal(429, "Too many requests", headers))
    assert caught.value.retry_after == wait
    assert caught.value.facts["api_status"] == 429


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (500, b"", "500: no message"),
        (502, b"<html>Bad\n gateway</html>", "502: <html>Bad gateway</html>"),
        (503, b'{"message":"Overloaded"}', "503: Overloaded"),
        (504, b"\xff\xfe", "504: "),
        (599, b"[1]", "599: [1]"),
    ],
)
async def test_a_5xx_is_transient__PL_9(status: int, body: bytes, told: str) -> None:
    with pytest.raises(Transient) as caught:
        await search(QUERY, Answer(body, status))
    assert type(caught.value) is Transient
    assert told in caught.value.message
    assert caught.value.facts["api_status"] == status


@pytest.mark.parametrize("status", [204, 302])
async def test_a_status_that_serper_never_sends_fails_for_a_look__PL_9(status: int) -> None:
    with pytest.raises(Permanent, match=str(status)):
        await search(QUERY, Answer(b"", status))


async def test_a_time_out_of_the_fetch_passes_through__PL_9() -> None:
    async def never(request: Request) -> Response:
        raise TimedOut("no answer in 30 s")

    with pytest.raises(TimedOut):
        await search(QUERY, never)


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'{"places":[{"title":"cut o', "malformed JSON"),
        (b"", "malformed JSON"),
        (b'{"places":[{"title":"\xff"}]}', "malformed JSON"),
        (b'{"places":[{"rating":NaN}]}', "malformed JSON"),
        (b"[]", "not an object"),
        (b'"places"', "not an object"),
        (b'{"places":{"0":{}}}', "not a list"),
        (b'{"places":"none"}', "not a list"),
        (b'{"places":[{"title":"A"},null]}', "a place that is not an object"),
        (b'{"places":[["A"]]}', "a place that is not an object"),
    ],
)
async def test_nonsense_fails_and_keeps_the_body_for_a_look__PL_9(body: bytes, what: str) -> None:
    with pytest.raises(Permanent, match=what) as caught:
        await search(QUERY, Answer(body))
    assert caught.value.evidence is not None
    assert caught.value.evidence.body == body
    assert caught.value.evidence.content_type == "application/json"
    assert caught.value.facts == {"api_status": 200, "api_ms": 412}


@pytest.mark.parametrize(("body", "cost"), [(b"{", 1), (b'{"places":1}', 1), (b'{"places":1,"credits":2}', 2)])
async def test_nonsense_counts_as_spent_because_the_call_was_answered__PL_11(body: bytes, cost: int | None) -> None:
    with pytest.raises(Permanent) as caught:
        await search(QUERY, Answer(body))
    assert caught.value.cost == cost


async def test_no_nul_reaches_a_record_because_postgresql_stores_none(recorded: Recorded) -> None:
    outcome = await done(recorded("odd-rows"))
    stored = b"".join(record.model_dump_json().encode() for record in outcome.records)
    assert b"NUL" in stored
    assert rb"\u0000" not in stored
