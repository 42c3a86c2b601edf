"""Pages that a step keeps: stored before it goes on, read without lane or network, fetched again when they are lost."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from forager.core.blobs import is_blob
from forager.core.errors import Refused
from forager.core.http import Request
from forager.fetch import EgressGuard, HttpFetcher
from forager.fetch.blobs import LocalBlobs
from forager.sandbox.site import SandboxSite
from forager.sandbox.site_pages import Answer
from tests.contract.engine.conftest import OpenRig
from tests.support.engine import EngineRig
from tests.support.keeping import READING, Reread, keep_plans, keeping
from tests.support.sites import SITE, RulesByHost, looks, plans, site_worker


@pytest.fixture
async def blobs(tmp_path: Path) -> AsyncIterator[LocalBlobs]:
    from forager.core.clock import SystemClock

    store = LocalBlobs(tmp_path / "blobs", SystemClock())
    yield store
    await store.close()


class Rules(RulesByHost):
    def __init__(self) -> None:
        super().__init__(SITE, reading=READING)


def kept(rig: EngineRig) -> dict[str, dict[str, str]]:
    return {row["url"]: row for row in rig.tables.read("SELECT * FROM kept_pages")}


async def test_a_page_is_stored_before_its_step_goes_on_and_read_without_another_request(
    open_rig: OpenRig, blobs: LocalBlobs
) -> None:
    async with SandboxSite() as site:
        rig = await open_rig(keeping())
        urls = [site.url(f"/page/{n}", host="a.example") for n in range(1, 30)]
        await rig.submit(keep_plans(urls), "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
        found = kept(rig)
        assert sorted(found) == sorted(urls)
        assert len(site.log) == 29, "the second step of each page asked for nothing"
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
        site.answers["/page/1"] = Answer(304)
        rig = await open_rig(keeping())
        await rig.submit(keep_plans([site.url("/page/1", host="a.example")]), "keeping")
        await site_worker(rig, [site], Rules(), blobs=blobs).run(until_idle=True)
        assert [row["blob"] for row in kept(rig).values()] == [None]
        assert (await blobs.stat()).pages == 0


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
    from forager.core.clock import SystemClock

    fetcher = HttpFetcher(EgressGuard(["0.0.0.0/0"]), SystemClock(), lambda _: None)
    with pytest.raises(Refused):
        await fetcher(Request(spelling("blob:" + "ab" * 20)))
    await fetcher.close()


class HttpFetcherFor:
    """A plain fetcher for one site."""

    def __init__(self, site: SandboxSite) -> None:
        from forager.core.clock import SystemClock

        self._fetcher = HttpFetcher(EgressGuard([f"127.0.0.1:{site.port}"]), SystemClock(), lambda _: None)

    async def __aenter__(self) -> HttpFetcher:
        return self._fetcher

    async def __aexit__(self, *_: object) -> None:
        await self._fetcher.close()
