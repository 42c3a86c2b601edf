"""A recorded job is one file, and runs again from it without the network, with the same records."""

import asyncio
import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from warcio.archiveiterator import ArchiveIterator

from forager.cli.main import run
from forager.core.errors import NameUnknown, Permanent
from forager.core.http import Request, Response
from forager.core.recording import RecordedTask
from forager.sdk.warc_read import read_at
from tests.support.reviews import TOKEN, open_reviews
from tests.support.scrape import open_service
from tests.support.shop import open_shop


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else str(request.getfixturevalue("app_postgres_url"))


def in_terminal(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    capfd.readouterr()
    code = run([str(each) for each in arguments])
    said = capfd.readouterr()
    return code, said.out + said.err


async def exported(
    home: Path,
    job: str,
    warc: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    url: str | None,
) -> None:
    if url is not None:
        monkeypatch.setenv("FORAGER_DATABASE_URL", url)
    code, said = await asyncio.to_thread(
        in_terminal, capfd, "--home", home, "pages", "export", "--job", job, "--warc", warc
    )
    assert code == 0, said
    monkeypatch.delenv("FORAGER_DATABASE_URL", raising=False)


async def replayed(warc: Path, capfd: pytest.CaptureFixture[str], *options: object) -> dict[str, Any]:
    code, said = await asyncio.to_thread(in_terminal, capfd, "replay", warc, *options, "--json")
    assert code == 0, said
    return dict(orjson.loads(said))


async def test_a_crawl_is_replayed_without_the_network_with_the_same_records(
    tmp_path: Path, database_url: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, warc = tmp_path / "home", tmp_path / "job.warc.gz"
    async with open_shop(home, database_url, pages=6, settings={"record": ("products",)}) as shop:
        job = await shop.crawl(urls=[shop.site.product_url(number) for number in (1, 2, 3)])
        found = await shop.get("/products")
    assert len(found) == 3
    await exported(home, job["id"], warc, capfd, monkeypatch, database_url)
    again = await replayed(warc, capfd, "--into", tmp_path / "again")  # the shop is closed: nothing answers any more
    assert (again["state"], again["differ"], again["not_recorded"]) == ("completed", {}, [])
    assert again["records"]["product"] == 3
    with warc.open("rb") as file:
        seen = [each.rec_headers.get_header("WARC-Target-URI") for each in ArchiveIterator(file)]
    assert any("/p/" in str(url) or "product" in str(url) for url in seen)


async def test_a_changed_answer_in_the_file_is_found_by_the_comparison(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, warc = tmp_path / "home", tmp_path / "job.warc.gz"
    async with open_shop(home, None, pages=2, settings={"record": ("all",)}) as shop:
        job = await shop.crawl(urls=[shop.site.product_url(1)])
        name = shop.site.product(1).name
    await exported(home, job["id"], warc, capfd, monkeypatch, None)
    true = read_at

    def other(*given: Any) -> Any:
        status, headers, body = true(*given).http()

        class Changed:
            @staticmethod
            def http() -> Any:
                return status, headers, body.replace(name.encode(), b"Another Table")

        return Changed

    monkeypatch.setattr("forager.app.replay.read_at", other)
    code, said = await asyncio.to_thread(in_terminal, capfd, "replay", warc)
    assert code == 1
    assert "1 product differ" in said


async def test_reviews_are_replayed_and_the_file_has_no_token(
    tmp_path: Path, database_url: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, warc = tmp_path / "home", tmp_path / "reviews.warc.gz"
    home.mkdir()
    async with open_reviews(home, database_url, locations=4, record=("reviews",)) as rig:
        job = await rig.fetch()
        await rig.work()
        found = await rig.records("review", job)
    assert found
    await exported(home, job, warc, capfd, monkeypatch, database_url)
    again = await replayed(warc, capfd)
    assert (again["state"], again["differ"]) == ("completed", {})
    assert again["records"]["review"] == len(found)
    with warc.open("rb") as file:
        for each in ArchiveIterator(file):
            assert TOKEN.encode() not in each.content_stream().read()
            assert TOKEN not in str(each.rec_headers)


async def test_scraped_pages_are_replayed_with_failures_and_their_reasons(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, warc = tmp_path / "home", tmp_path / "scrape.warc.gz"
    home.mkdir()
    async with open_service(home, record=("scrape",)) as service:
        job = await service.batch([service.target("/jobs/jsonld/1"), service.target("/nothing/here")])
        await service.work()
        before = (await service.client.get(f"/api/v1/jobs/{job}")).json()["data"]
    await exported(home, job, warc, capfd, monkeypatch, None)
    again = await replayed(warc, capfd)
    assert (again["state"], again["differ"], again["not_recorded"]) == (before["state"], {}, [])


async def test_a_job_that_was_not_recorded_names_the_setting(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with open_reviews(home, None, locations=1) as rig:
        job = await rig.fetch()
        await rig.work()
    warc = tmp_path / "x.warc.gz"
    code, said = await asyncio.to_thread(
        in_terminal, capfd, "--home", home, "pages", "export", "--job", job, "--warc", warc
    )
    assert code == 4
    assert re.search(r"FORAGER_RECORD\s+to\s+its\s+pipeline", said)
    assert not warc.exists()


async def test_the_last_attempt_counts_and_a_killed_writer_loses_only_its_last_record(tmp_path: Path) -> None:
    from forager.app.recording import FolderRecorder, read_portion
    from forager.app.replay import FilePlayer, read_recording, write_job
    from forager.sdk.warc import WarcWriter

    now = datetime(2026, 3, 14, 12, tzinfo=UTC)
    request = Request("https://user:secret@shop.example/a?api_key=s3cret&page=1", headers={"Authorization": "s3cret"})
    again = Request("https://shop.example/b")
    recorder = FolderRecorder(tmp_path / "rec", ("products",), keep_days=1, internal=("webhook",))
    assert recorder.takes("products")
    assert not recorder.takes("webhook")
    for claim, body in ((1, b"first"), (2, b"second")):
        task = RecordedTask(7, "products.fetch", "a", claim)
        answer = Response(request.url, 200, {"Content-Type": "text/html", "Set-Cookie": "s3cret=1"}, body, now, 5)
        await recorder.answered(task, request, answer)
    await recorder.failed(RecordedTask(7, "products.fetch", "b", 3), again, NameUnknown("shop.example: no such name."))
    await recorder.answered(task, again, Response(again.url, 200, {}, b"lost", now, 5))
    await recorder.close()
    (part,) = (tmp_path / "rec" / "7").iterdir()
    whole = part.read_bytes()
    part.write_bytes(whole[:-20])  # its writer was killed within the last record
    content, following = read_portion(tmp_path / "rec", 7, None)
    assert following is None
    assert whole.startswith(content)
    file = io.BytesIO()
    writer = WarcWriter(file, "x.warc.gz")
    write_job(writer, {"pipeline": "products", "params": {}, "created_at": now.isoformat()}, now)
    writer.add_members(content)
    file.seek(0)
    assert b"s3cret" not in b"".join(each.content_stream().read() for each in ArchiveIterator(file))
    file.seek(0)
    play = FilePlayer(read_recording(file))
    fresh = RecordedTask(1, "products.fetch", "a", 99)
    assert (await play(fresh, request)).body == b"second"
    assert (await play(fresh, request)).body == b"second"  # the last answer again
    with pytest.raises(NameUnknown):
        await play(RecordedTask(1, "products.fetch", "b", 99), again)
    with pytest.raises(Permanent, match="not in the recording"):
        await play(fresh, Request("https://shop.example/other"))
    assert play.missing == ["products.fetch a: GET https://shop.example/other"]
