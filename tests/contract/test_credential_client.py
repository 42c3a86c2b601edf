"""The client for logins against a backend: requests once, caches for minutes, retries, and never shows a secret."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from structlog.testing import capture_logs

from forager.core.errors import CredentialsMissing, ForagerError, Permanent, Rejected, Transient
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.fetch.logins import SERVICE_KEY, CredentialClient
from forager.sandbox.credentials import CredentialBackend
from tests.support.clock import FakeClock

KEY = "backend-key-CANARY-77aa"
CANARY = "li_at-CANARY-0f9e8d7c"


@dataclass
class Asking:
    client: CredentialClient
    backend: CredentialBackend
    clock: FakeClock
    base: float

    @property
    def waited(self) -> float:
        return self.clock.monotonic() - self.base


@asynccontextmanager
async def asking(key: str | None = KEY, **more: Any) -> AsyncIterator[Asking]:
    clock = FakeClock()
    async with CredentialBackend(KEY) as backend:
        fetcher = HttpFetcher(EgressGuard([backend.endpoint]), clock, {SERVICE_KEY: key}.get)
        backend.keep("acme", "linkedin", {"li_at": CANARY, "expires": 17})
        client = CredentialClient(fetcher, clock, backend.base_url, **more)
        yield Asking(client, backend, clock, clock.monotonic())
        await fetcher.close()


async def test_the_backend_is_queried_by_path_and_key_and_answers_in_secrets__SC_12() -> None:
    async with asking() as a:
        found = await a.client.get("acme", "linkedin")
        assert {name: secret.reveal() for name, secret in found.items()} == {"li_at": CANARY, "expires": "17"}
        (question,) = a.backend.log
        assert question.path == "/api/v1/workspaces/acme/credentials/linkedin"
        assert question.headers["x-service-key"] == KEY


async def test_an_envelope_like_our_own_is_opened() -> None:
    async with asking() as a:
        a.backend.keep("acme", "linkedin", {"success": True, "data": {"li_at": CANARY}, "error": None})
        assert list(await a.client.get("acme", "linkedin")) == ["li_at"]


async def test_concurrent_requests_for_the_same_login_are_sent_once() -> None:
    async with asking() as a:
        found = await asyncio.gather(*(a.client.get("acme", "linkedin") for _ in range(20)))
        assert len(a.backend.log) == 1
        assert len({id(each) for each in found}) == 1


@pytest.mark.parametrize("trouble", [500, 502, 503, 429, 0])
async def test_three_retries_after_one_two_and_four_seconds_and_then_it_is_found__SC_12(trouble: int) -> None:
    async with asking() as a:
        a.backend.fail(trouble, trouble, trouble)
        assert await a.client.get("acme", "linkedin")
        assert len(a.backend.log) == 4
        assert a.waited == pytest.approx(7.0)


async def test_after_the_last_retry_the_failure_is_raised_and_not_cached__SC_12() -> None:
    async with asking() as a:
        a.backend.fail(500, 500, 500, 500)
        with pytest.raises(Transient, match="500"):
            await a.client.get("acme", "linkedin")
        assert len(a.backend.log) == 4
        assert await a.client.get("acme", "linkedin")


async def test_a_login_that_the_backend_lacks_is_missing_at_once_and_requested_again_later__SC_12() -> None:
    async with asking() as a:
        with pytest.raises(CredentialsMissing, match="linkedin in workspace other"):
            await a.client.get("other", "linkedin")
        assert (len(a.backend.log), a.waited) == (1, 0.0)
        a.backend.keep("other", "linkedin", {"li_at": "x"})
        assert await a.client.get("other", "linkedin")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_key_that_the_backend_refuses_is_for_a_person_to_correct(status: int) -> None:
    async with asking() as a:
        a.backend.fail(status)
        with pytest.raises(CredentialsMissing, match=f"{status}.*{SERVICE_KEY}") as refused:
            await a.client.get("acme", "linkedin")
        assert refused.value.reason == "key_refused"
        assert len(a.backend.log) == 1
        assert await a.client.get("acme", "linkedin")


async def test_a_refused_key_is_logged_once_and_its_acceptance_once() -> None:
    async with asking() as a:
        a.backend.fail(401, 403, 401)
        with capture_logs() as lines:
            for _ in range(3):
                with pytest.raises(CredentialsMissing):
                    await a.client.get("acme", "linkedin")
            assert a.client.refusal is not None
            await a.client.get("acme", "linkedin")
        assert a.client.refusal is None
    assert [line["event"] for line in lines] == ["key_refused", "key_accepted"]
    assert (lines[0]["log_level"], lines[0]["setting"]) == ("error", SERVICE_KEY)


async def test_without_a_key_nothing_is_sent() -> None:
    async with asking(key=None) as a:
        with pytest.raises(CredentialsMissing, match=SERVICE_KEY):
            await a.client.get("acme", "linkedin")
        assert a.backend.log == []


@pytest.mark.parametrize("status", [202, 301, 302, 400, 418])
async def test_any_other_answer_is_permanent_and_no_redirect_is_followed(status: int) -> None:
    async with asking() as a:
        a.backend.fail(status)
        with pytest.raises(Permanent, match=str(status)):
            await a.client.get("acme", "linkedin")


@pytest.mark.parametrize(
    ("workspace", "provider"),
    [
        ("..", "linkedin"),
        (".", "x"),
        ("a/b", "x"),
        ("acme", "../../keys"),
        ("a?b", "x"),
        ("a#b", "x"),
        ("", "x"),
        ("é", "x"),
    ],
)
async def test_a_name_that_would_be_another_path_is_never_requested(workspace: str, provider: str) -> None:
    async with asking() as a:
        with pytest.raises(CredentialsMissing):
            await a.client.get(workspace, provider)
        assert a.backend.log == []


@pytest.mark.parametrize(
    "url",
    [
        "http://backend.example",
        "http://10.0.0.5:8000",
        "http://localhost.evil.example",
        "ftp://127.0.0.1",
        "http://[::2]",
    ],
)
async def test_a_backend_without_https_is_refused_unless_it_is_this_machine__SC_12(url: str) -> None:
    async with asking() as a:
        with pytest.raises(Rejected, match="FORAGER_BACKEND_API_URL"):
            CredentialClient(a.client._fetch, a.clock, url)
        for fine in ("https://backend.example/api", "http://127.0.0.1:1", "http://localhost:1/x", "http://[::1]:1"):
            CredentialClient(a.client._fetch, a.clock, fine)


async def test_without_a_backend_credentials_are_missing() -> None:
    async with asking() as a:
        with pytest.raises(CredentialsMissing, match="FORAGER_BACKEND_API_URL"):
            await CredentialClient(a.client._fetch, a.clock, None).get("acme", "linkedin")


async def test_what_was_refused_by_the_site_can_be_forgotten() -> None:
    async with asking() as a:
        await a.client.get("acme", "linkedin")
        a.client.forget("acme", "linkedin")
        await a.client.get("acme", "linkedin")
        assert len(a.backend.log) == 2


async def test_one_who_gives_up_waiting_does_not_take_the_answer_from_the_others() -> None:
    async with asking() as a:
        first = asyncio.create_task(a.client.get("acme", "linkedin"))
        second = asyncio.create_task(a.client.get("acme", "linkedin"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second
        assert len(a.backend.log) == 1


@pytest.mark.parametrize("answer", [b'{"li_at": "' + CANARY.encode(), [CANARY], CANARY, {}, {"data": []}])
async def test_an_unexpected_answer_is_reported_without_its_content__S8(answer: Any) -> None:
    async with asking() as a:
        a.backend.keep("acme", "linkedin", answer)
        if answer == {"data": []}:  # a credential by the name of data, then
            assert list(await a.client.get("acme", "linkedin")) == ["data"]
            return
        with pytest.raises(Permanent) as refused:
            await a.client.get("acme", "linkedin")
        assert refused.value.evidence is None
        assert CANARY not in "".join(traceback.format_exception(refused.value))


async def test_no_error_names_the_key_or_what_was_found__S8() -> None:
    async with asking() as a:
        shown = [repr(await a.client.get("acme", "linkedin"))]
        for statuses in ((404,), (401,), (500,) * 4, (400,)):
            a.client.forget("acme", "linkedin")
            a.backend.fail(*statuses)
            with pytest.raises(ForagerError) as refused:
                await a.client.get("acme", "linkedin")
            shown += traceback.format_exception(refused.value)
        assert "***" in shown[0]
        assert not any(canary in text for text in shown for canary in (KEY, CANARY))
