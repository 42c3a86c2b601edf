"""Pages that a step keeps: stored before it continues, read without lane or network, fetched again when they are
lost."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from forager.core.clock import SystemClock
from forager.core.errors import BlobMissing, Refused
from forager.core.http import Request, Response
from forager.core.storage import is_blob
from forager.core.task import Plan
from forager.fetch.guard import EgressGuard
from forager.fetch.http.fetcher import HttpFetcher
from forager.ledger.catalog import Catalog
from forager.ledger.tables.pages import BlobReferences
from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.site import SandboxSite
from forager.storage.pages.local import LocalBlobs
from tests.contract.engine.conftest import OpenRig
from tests.support.clock import FakeClock
from tests.support.engine import EngineRig
from tests.support.kept_pages import READING, Reread, keep_plans, keeping
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker

pytestmark = pytest.mark.one_store  # pages are files


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[LocalBlobs]:
    store = LocalBlobs(tmp_path / "blobs", SystemClock())
    yield store
    await store.close()


class Rules(RulesByHost):
    def __init__(self) -> None:
        super().__init__(SITE, reading=READING)


def kept(rig: EngineRig) -> dict[str, dict[str, str]]:
    return {row["url"]: row for row in rig.tables.read("SELECT * FROM kept_pages")}


@pytest.mark.one_store(False)
async def test_a_page_is_stored_before_its_step_continues_and_read_without_another_request(
    open_rig: OpenRig, blobs: LocalBlobs
) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(keeping())
        urls = [site.url(f"/page/{n}", host="a.example") for n in range(1, 30)]
        await rig.submit(keep_plans(urls), "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
        found = kept(rig)
        assert sorted(found) == sorted(urls)
        assert len(site.log) == 29, "the second step of each page requested nothing"
        for url, row in found.items():
            assert is_blob(row["blob"])
            stored = await blobs.read(row["blob"])
            assert (stored.url, stored.body.decode()) == (url, row["reread"])
            assert stored.headers.get("Content-Type", "").startswith("text/html")


@pytest.mark.parametrize("loss", ["deleted", "damaged"])
async def test_a_page_that_is_lost_is_fetched_again(
    open_rig: OpenRig, blobs: LocalBlobs, tmp_path: Path, loss: str
) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(keeping())
        url = site.url("/page/1", host="a.example")

        async def lose(response: object) -> None:
            await blobs.close()
            [segment] = (tmp_path / "blobs").glob("*.seg")
            segment.unlink() if loss == "deleted" else segment.write_bytes(os.urandom(segment.stat().st_size))

        async with HttpFetcherFor(site) as fetch:
            blob = await blobs.keep(await fetch(Request(site.url("/page/1"))))
        await lose(blob)
        [plan] = keep_plans([url])
        plan.task = Reread(url=url, blob=blob)
        await rig.submit([plan], "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
        [row] = kept(rig).values()
        assert "<title>" in row["reread"]
        assert (await blobs.read(row["blob"])).body.decode() == row["reread"]
        assert len(site.visits(host="a.example")) == 1


async def test_a_step_that_only_reads_a_missing_page_fails_with_a_word(open_rig: OpenRig, blobs: LocalBlobs) -> None:
    rig = await open_rig(looks())
    url = "blob:" + "0" * 40
    job = await rig.submit(plans([url]), "looks")
    await site_worker(rig, [], RulesByHost(SITE), blobs=blobs).run(until_idle=True)
    [task] = rig.tasks(job).values()
    assert (rig.states(job)[url], task["reason"], task["error_type"]) == ("failed", "blob_missing", "storage")


async def test_an_empty_answer_is_not_stored(open_rig: OpenRig, blobs: LocalBlobs) -> None:
    async with SandboxSite() as site:
        site.answers["/page/1"] = SiteAnswer(304)
        rig = await open_rig(keeping())
        await rig.submit(keep_plans([site.url("/page/1", host="a.example")]), "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
        assert [row["blob"] for row in kept(rig).values()] == [None]
        assert (await blobs.stat()).pages == 0


@pytest.mark.one_store(False)
async def test_what_a_record_refers_to_is_not_collected(
    open_rig: OpenRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.ledger.tables.pages.AT_ONCE", 2)
    clock = FakeClock()
    blobs = LocalBlobs(tmp_path / "blobs", clock, grace=1)
    async with SandboxSite() as site:
        rig = await open_rig(keeping())
        urls = [site.url(f"/page/{n}", host="a.example") for n in range(1, 8)]
        await rig.submit(keep_plans(urls), "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
    await blobs.keep(Response("https://a.example/", 200, {}, b"lost", clock.now(), 1))
    clock.advance(3601)
    collected = await blobs.collect(BlobReferences(rig.ledger.database, Catalog([keeping()])))
    assert (collected.pages, collected.kept) == (1, 7)
    for row in kept(rig).values():
        assert (await blobs.read(row["blob"])).url == row["url"]
    await blobs.close()


@pytest.mark.one_store(False)
async def test_what_waiting_and_failed_tasks_refer_to_is_not_collected(
    open_rig: OpenRig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forager.ledger.tables.pages.AT_ONCE", 2)
    monkeypatch.setattr("forager.ledger.tables.pages.TASKS_AT_ONCE", 2)
    clock = FakeClock()
    blobs = LocalBlobs(tmp_path / "blobs", clock, grace=1)

    async def stored(name: str) -> str:
        return await blobs.keep(Response(f"https://a.example/{name}", 200, {}, name.encode(), clock.now(), 1))

    rig = await open_rig(keeping())
    failed = [await stored(f"failed {n}") for n in range(3)]
    await rig.submit([Plan(Reread(url=f"ftp://a.example/{blob}", blob=blob)) for blob in failed], "keeping")
    await site_worker(rig, [], Rules(), blobs=LocalBlobs(tmp_path / "none", clock)).run(until_idle=True)
    waiting = [await stored(f"waiting {n}") for n in range(5)]
    await rig.submit([Plan(Reread(url=blob, blob=blob)) for blob in waiting], "keeping")
    lost = await stored("nothing refers to it")
    references = BlobReferences(rig.ledger.database, Catalog([keeping()]))
    assert {blob async for some in references() for blob in some} == {*failed, *waiting}
    clock.advance(3601)
    assert (await blobs.collect(references)).pages == 1
    for blob in (*failed, *waiting):
        assert (await blobs.read(blob)).blob == blob
    with pytest.raises(BlobMissing):
        await blobs.read(lost)
    await blobs.close()


# ── never from outside ──


async def test_a_redirect_to_a_stored_page_is_refused__S1(open_rig: OpenRig, blobs: LocalBlobs) -> None:
    async with SandboxSite() as site, HttpFetcherFor(site) as fetch:
        secret = await blobs.keep(await fetch(Request(site.url("/page/1"))))
        rig = await open_rig(looks())
        url = site.url(f"/redirect?to={secret}", host="a.example")
        job = await rig.submit(plans([url]), "looks")
        await site_worker(rig, [site], RulesByHost(SITE), blobs=blobs).run(until_idle=True)
        [task] = rig.tasks(job).values()
        assert (rig.states(job)[url], task["reason"]) == ("failed", "egress_refused")


@pytest.mark.parametrize("spelling", [str, str.upper, "view-source:{}".format, " {}".format, "blob://{}".format])
async def test_the_fetcher_behind_the_lanes_refuses_stored_pages__S1(spelling: Callable[[str], str]) -> None:
    fetcher = HttpFetcher(EgressGuard(["0.0.0.0/0"]), SystemClock(), lambda _: None)
    with pytest.raises(Refused):
        await fetcher(Request(spelling("blob:" + "ab" * 20)))
    await fetcher.close()


class HttpFetcherFor:
    """A plain fetcher for one site."""

    def __init__(self, site: SandboxSite) -> None:
        self._fetcher = HttpFetcher(EgressGuard([f"127.0.0.1:{site.port}"]), SystemClock(), lambda _: None)

    async def __aenter__(self) -> HttpFetcher:
        return self._fetcher

    async def __aexit__(self, *_: object) -> None:
        await self._fetcher.close()
