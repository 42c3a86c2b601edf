"""Pages are read in other processes: the deadly and the endless fail alone, with their page kept for a look."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forager.core.reading import parse
from forager.sandbox.scrape_pages import page
from tests.support.reading_functions import NUMBERS
from tests.support.scrape import Service, open_service

BIG = "<p>" + "word " * 80_000 + "</p>"


@pytest.fixture
async def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    monkeypatch.setattr("forager.pipelines.scrape.wiring.EXTRACTORS", (NUMBERS,))
    monkeypatch.setitem(parse.__kwdefaults__ or {}, "limit", 1.0)
    async with open_service(tmp_path) as opened, opened.app.engine():
        yield opened


async def test_pages_are_read_in_other_processes_however_small(service: Service) -> None:
    service.site.answers |= {"/big": page("Big", BIG), "/small": page("Small", "<p>word word</p>")}
    big = (await service.sync("/big", target_type="numbers")).json()["data"]["result"]
    small = (await service.sync("/small", target_type="numbers")).json()["data"]["result"]
    assert (big["words"], small["words"]) == (80_000, 2)
    assert os.getpid() not in (small["process"], big["process"])


@pytest.mark.parametrize(("word", "reason"), [("kill me", "parse_crashed"), ("hold me", "parse_late")])
async def test_a_deadly_or_endless_page_fails_alone_and_is_kept__SC_15(
    service: Service, word: str, reason: str
) -> None:
    service.site.answers |= {"/bad": page("Bad", BIG + word), "/big": page("Big", BIG)}
    targets = [service.target(path, target_type="numbers") for path in ("/big", "/bad", "/big", "/big")]
    job = await service.batch(targets)
    answer = await service.sync("/bad", target_type="numbers")
    assert (answer.status_code, answer.json()["meta"]["reason"]) == (502, reason)
    dead = (await service.client.get(f"/api/v1/dead/{answer.json()['meta']['task_id']}")).json()["data"]
    assert (dead["attempts"], dead["error_type"]) == (1, "parse")
    assert "<title>Bad</title>" in dead["evidence"]["text"]
    ended = await service.ended(job)
    assert (ended["completed_tasks"], ended["failed_tasks"]) == (3, 1)
