"""Guarantees of the scrape service for every request, over the whole API in this process and a real store."""

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.fetch.browser.pool import PoolStats
from tests.support.api import KEY
from tests.support.held_service import Held, held_still, requests, without_callback
from tests.support.scrape import API

EXAMPLES = settings(max_examples=100, deadline=None)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    with held_still(tmp_path_factory.mktemp("scrape")) as service:
        yield service


_WRONG: dict[str, st.SearchStrategy[Any]] = {
    "target_type": st.sampled_from([None, 7, "", "no_such_type", "companies", "Job Posting", "job-posting"]),
    "target_url": st.one_of(
        st.sampled_from([None, 7, "", "example.com", "ftp://example.com/", "https://", "http://a b/", "//a.example/"]),
        st.sampled_from(
            ["https://u:p@example.com/", "https://exa mple.com/", "https://example.com:99999/", "javascript:1"]
        ),
        st.text(alphabet="abc/:.", max_size=10),
    ),
    "requested_fields": st.sampled_from([[], "job_title", ["no_such_field"], ["smell", "name"], [7], ["Job Title"]]),
    "workspace_id": st.sampled_from([None, 7, "", "   ", "x" * 201, ["a"]]),
    "callback_url": st.sampled_from(["", "hooks", "file:///etc/passwd", 7, ["https://example.com/"]]),
    "render": st.sampled_from(["", "HTTP", "chrome", None, 1]),
    "unknown": st.just(1),
}


@st.composite
def wrong_requests(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A request with one thing wrong, and the field that is."""
    said = draw(requests())
    field_name = draw(st.sampled_from(sorted(_WRONG)))
    if field_name == "target_url" and draw(st.booleans()):  # the other fields have defaults
        del said[field_name]
    else:
        said[field_name] = draw(_WRONG[field_name])
    return said, field_name


# Feature: scraping-microservices, Property 1: JSON envelope consistency
@EXAMPLES
@given(data=st.data())
def test_every_answer_is_the_one_envelope__SC_P1(held: Held, data: st.DataObject) -> None:
    method, path, body = data.draw(_calls())
    answer = held.run(held.call(method, path, content=body, headers={"Content-Type": "application/json"}))
    said = answer.json()
    assert said.keys() == {"success", "data", "error", "meta"}
    assert isinstance(said["meta"], dict)
    if answer.status_code >= 400:
        assert said["success"] is False
        assert isinstance(said["error"], str)
        assert said["error"]
    else:
        assert said["success"] is True
        assert said["error"] is None


@st.composite
def _calls(draw: st.DrawFn) -> tuple[str, str, bytes]:
    some_id = str(draw(st.uuids()))
    under = ["", "/batch", f"/{some_id}", f"/jobs/{some_id}", f"/jobs/{some_id}/results", f"/jobs/{some_id}/cancel"]
    path = draw(st.sampled_from([*(f"{API}{each}" for each in under), "/health", "/readiness", "/nowhere"]))
    content = st.one_of(
        st.binary(max_size=20),
        requests().map(_json),
        wrong_requests().map(lambda wrong: _json(wrong[0])),
        st.lists(requests().map(without_callback), max_size=3).map(lambda targets: _json({"targets": targets})),
    )
    return draw(st.sampled_from(["GET", "POST", "PUT", "DELETE"])), path, draw(content)


def _json(value: Any) -> bytes:
    return orjson.dumps(value)


# Feature: scraping-microservices, Property 2: Readiness reflects pool state
@EXAMPLES
@given(
    available=st.integers(0, 5),
    launchable=st.integers(0, 5),
    in_use=st.integers(0, 20),
    healthy=st.integers(0, 5),
    unhealthy=st.integers(0, 5),
)
def test_ready_if_a_browser_and_a_proxy_can_be_had__SC_P2(
    held: Held, available: int, launchable: int, in_use: int, healthy: int, unhealthy: int
) -> None:
    """Without any proxy configured, none is needed; a browser that could be started counts as one."""
    pool = PoolStats(available + in_use, available, in_use, 0, 0, 0, launchable, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held.service.app.browsers, "stats", lambda: pool)
        patch.setattr(held.service.app, "proxies", _Proxies(healthy, unhealthy))
        answer = held.run(held.call("GET", "/readiness"))
    wanted = available + launchable > 0 and (healthy > 0 or healthy + unhealthy == 0)
    assert answer.status_code == (200 if wanted else 503)
    assert answer.json()["data"]["ready"] is wanted


class _Proxies:
    def __init__(self, healthy: int, unhealthy: int) -> None:
        self.usable = healthy
        self._all = healthy + unhealthy

    def __len__(self) -> int:
        return self._all

    async def list(self) -> list[Any]:
        return []


# Feature: scraping-microservices, Property 3: Request ID uniqueness
@EXAMPLES
@given(calls=st.lists(_calls(), min_size=2, max_size=6), claimed=st.uuids())
def test_every_answer_has_an_id_of_its_own__SC_P3(
    held: Held, calls: list[tuple[str, str, bytes]], claimed: UUID
) -> None:
    async def ask() -> list[httpx.Response]:
        sent = {"X-Request-ID": str(claimed)}
        return await asyncio.gather(*(held.call(m, p, content=b, headers=sent) for m, p, b in calls))

    ids = [UUID(answer.headers["X-Request-ID"]) for answer in held.run(ask())]
    assert len(set(ids)) == len(ids)
    assert claimed not in ids


# Feature: scraping-microservices, Property 4: Service key authentication
@EXAMPLES
@given(
    key=st.one_of(
        st.none(),
        st.just(KEY),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40),
        st.integers(0, len(KEY)).map(lambda cut: KEY[:cut]),
        st.sampled_from([KEY + "x", KEY.lower(), KEY.upper(), f" {KEY}x"]),
    ),
    path=st.sampled_from([API, f"{API}/batch", f"{API}/sync", f"{API}/{UUID(int=7)}", f"{API}/jobs/{UUID(int=7)}"]),
)
def test_only_the_service_key_opens_a_route__SC_P4(held: Held, key: str | None, path: str) -> None:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(held.service.api)
        headers = {} if key is None else {"X-Service-Key": key}
        async with httpx.AsyncClient(transport=transport, base_url="http://forager.test", headers=headers) as client:
            return await client.post(path, json={})

    assert (held.run(ask()).status_code != 401) is (key == KEY)


# Feature: scraping-microservices, Property 5: Pydantic validation produces 422 with field errors
@EXAMPLES
@given(wrong=wrong_requests(), route=st.sampled_from(["", "/sync", "/batch"]))
def test_errors_are_reported_field_by_field__SC_P5(held: Held, wrong: tuple[dict[str, Any], str], route: str) -> None:
    said, name = wrong
    place = name
    if route == "/batch":
        if name == "callback_url":
            body: dict[str, Any] = {"targets": [without_callback(said)], "callback_url": said[name]}
        else:
            body, place = {"targets": [without_callback(said)]}, f"targets.0.{name}"
    else:
        body = said
    answer = held.run(held.call("POST", f"{API}{route}", json=body))
    assert answer.status_code == 422, answer.text
    fields = answer.json()["meta"]["fields"]
    assert any(each["field"].startswith(place) and each["message"] for each in fields), (fields, place)


# Feature: scraping-microservices, Property 6: Async task creation returns queued status
@EXAMPLES
@given(said=requests())
def test_a_requested_page_is_queued__SC_P6(held: Held, said: dict[str, Any]) -> None:
    answer = held.run(held.call("POST", API, json=said))
    assert answer.status_code == 202, answer.text
    data = answer.json()["data"]
    assert data["status"] == "queued"
    seen = held.run(held.service.data(f"/{UUID(data['task_id'])}"))
    assert (seen["status"], seen["target_url"], seen["target_type"]) == (
        "queued",
        said["target_url"],
        said["target_type"],
    )
