"""The one shape of every answer, the id of every request, and requests that are not what they should be."""

import json
from typing import Any
from uuid import UUID

import httpx
import pytest
import structlog

from forager.api.create import MOST_BYTES
from forager.core.errors import StoreFull, StoreUnavailable
from tests.support.api import JOB, Front, client_of

SECRET = "canary-3f9a"


def _failure(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    said: dict[str, Any] = answer.json()
    assert set(said) == {"success", "data", "error", "meta"}
    assert (said["success"], said["data"], said["meta"]["code"]) == (False, None, code)
    assert said["error"]
    assert said["meta"]["request_id"] == answer.headers["X-Request-ID"]
    return said


async def test_every_kind_of_error_has_the_envelope(client: httpx.AsyncClient) -> None:
    _failure(await client.get("/nowhere"), 404, "not_found")
    _failure(await client.get("/api/v1/jobs/"), 404, "not_found")
    not_allowed = await client.patch("/api/v1/jobs")
    _failure(not_allowed, 405, "method_not_allowed")
    assert not_allowed.headers["Allow"]
    _failure(await client.post("/api/v1/jobs", json={}), 422, "invalid")
    _failure(await client.get("/api/v1/jobs/12"), 422, "invalid")
    _failure(await client.get("/api/v1/jobs/00000000-0000-0000-0000-000000000000"), 404, "not_found")
    _failure(await client.get("/api/v1/places/x"), 404, "not_found")


async def test_a_defect_is_reported_in_general_and_logged_in_detail__S8(
    simple: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"password={SECRET}")

    monkeypatch.setattr(simple.app.reports, "jobs", broken)
    with structlog.testing.capture_logs() as logged:
        answer = await simple.client.get("/api/v1/jobs")
    said = _failure(answer, 500, "defect")
    assert SECRET not in answer.text
    (defect,) = [entry for entry in logged if entry["log_level"] == "error"]
    assert SECRET in str(defect["exc_info"])
    assert defect["request_id"] == said["meta"]["request_id"]


@pytest.mark.parametrize("error", [StoreFull(), StoreUnavailable(f"postgresql://u:{SECRET}@h/db does not answer")])
async def test_a_store_that_fails_is_a_503_with_a_time_to_come_back__R10(
    simple: Front, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(simple.app.ledger, "submit", fails)
    answer = await simple.client.post("/api/v1/places/jobs", json=JOB)
    _failure(answer, 503, "store_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    assert SECRET not in answer.text


async def test_each_request_has_an_id_of_ours_and_the_clients_own_is_only_logged(simple: Front) -> None:
    own = "11111111-1111-4111-8111-111111111111"
    seen = set()
    with structlog.testing.capture_logs() as logged:
        for path in ("/health", "/api/v1/jobs", "/nowhere", "/metrics"):
            answer = await simple.client.get(path, headers={"X-Request-ID": own})
            ours = answer.headers.get_list("X-Request-ID")
            assert len(ours) == 1
            seen.add(UUID(ours[0]))
            assert own not in answer.text
    assert len(seen) == 4
    assert UUID(own) not in seen
    requests = [entry for entry in logged if entry["event"] == "request"]
    assert [entry["client_request_id"] for entry in requests] == [own] * 4
    assert {UUID(entry["request_id"]) for entry in requests} == seen
    async with client_of(simple.api, key=None) as stranger:
        assert UUID((await stranger.get("/api/v1/jobs")).headers["X-Request-ID"])


BODIES = {
    "not JSON": b"{",
    "nothing": b"",
    "not UTF-8": b'{"keyword": "\xff"}',
    "a lone surrogate": b'{"keyword": "\\ud800", "state": "AZ"}',
    "a NUL": b'{"keyword": "a\\u0000b", "state": "AZ"}',
    "a NUL in a name": b'{"keyword": "bars", "state": "AZ", "a\\u0000b": 1}',
    "NaN": b'{"keyword": "bars", "state": "AZ", "pages": NaN}',
    "a number of 5,000 digits": b'{"keyword": "bars", "state": "AZ", "pages": ' + b"9" * 5_000 + b"}",
    "nested 5,000 deep": b"[" * 5_000 + b"]" * 5_000,
    "a list": b"[]",
    "null": b"null",
    "a text": b'"bars"',
}


async def test_a_body_that_cannot_be_read_is_a_422__S10(front: Front) -> None:
    kind = {"Content-Type": "application/json"}
    for path in ("/api/v1/places/jobs", "/api/v1/places/plan", "/api/v1/jobs"):
        for name, body in BODIES.items():
            answer = await front.client.post(path, content=body, headers=kind)
            assert answer.status_code == 422, (path, name, answer.text)
            assert answer.json()["meta"]["code"] == "invalid"
    nul = await front.client.post("/api/v1/places/jobs", content=BODIES["a NUL"], headers=kind)
    assert "NUL" in nul.json()["error"]
    for params in ({"keyword": "\ud800"}, {"keyword": "a\0b"}):
        body = json.dumps({"pipeline": "places", "params": params}).encode()
        assert (await front.client.post("/api/v1/jobs", content=body, headers=kind)).status_code == 422
    assert await front.data("/api/v1/jobs") == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_only_json_is_taken_for_json(client: httpx.AsyncClient, kind: str) -> None:
    answer = await client.post(
        "/api/v1/places/jobs", content=b'{"keyword":"bars","state":"AZ"}', headers={"Content-Type": kind}
    )
    _failure(answer, 422, "invalid")


async def test_invalid_json_is_reported_with_its_position(client: httpx.AsyncClient) -> None:
    async def said(body: bytes) -> str:
        refused = await client.post("/api/v1/jobs", content=body, headers={"Content-Type": "application/json"})
        (wrong,) = refused.json()["meta"]["fields"]
        assert (refused.status_code, wrong["field"]) == (422, "body")
        return str(wrong["message"])

    assert (await said('{"é": 1,\n "pipeline" 2}'.encode())).endswith(" at line 2, column 13")
    assert (await said(b'{"a": NaN}')).endswith(" at line 1, column 7")
    assert "line" not in await said(b"\xff{"), "where nothing could be read, there are no lines"


async def test_a_nul_in_the_address_is_refused_on_every_store__S10(front: Front) -> None:
    for path in (
        "/api/v1/places?title=%00",
        "/api/v1/places/a%00b",
        "/api/v1/schedules/a%00b",
        "/api/v1/jobs?pipeline=%00",
    ):
        assert (await front.client.get(path)).status_code == 422, path
    odd = (
        "/api/v1/places?title=%ED%A0%80",
        "/api/v1/places/%ED%A0%80",
        "/api/v1/places?title=%F0%9F%8D%BA&category=%27%22",
    )
    for path in odd:
        assert (await front.client.get(path)).status_code in (200, 404), path


async def test_a_body_over_the_limit_is_refused_announced_or_not(client: httpx.AsyncClient) -> None:
    async def endless() -> Any:
        while True:
            yield b" " * 65_536

    kind = {"Content-Type": "application/json"}
    announced = await client.post("/api/v1/places/jobs", content=b" " * (MOST_BYTES + 1), headers=kind)
    _failure(announced, 413, "too_large")
    _failure(await client.post("/api/v1/places/jobs", content=endless(), headers=kind), 413, "too_large")


async def test_a_thousand_wrong_fields_are_reported_as_a_hundred(client: httpx.AsyncClient) -> None:
    answer = await client.post("/api/v1/places/jobs", json={**JOB, **{f"x{n}": 1 for n in range(1_000)}})
    assert len(_failure(answer, 422, "invalid")["meta"]["fields"]) == 100


async def test_answers_are_not_to_be_sniffed_or_kept(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/v1/jobs")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Type"] == "application/json"
