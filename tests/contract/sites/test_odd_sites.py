"""Sites that are odd, broken or hostile: each crawl ends with a reason and harms nothing."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from forager.sandbox.scrape_pages import SiteAnswer
from forager.sandbox.wire import WireRequest
from tests.support.scrape import Service, open_service

WORDS = "garden river stone window letter market harbour winter orange silver meadow engine paper candle bridge"


def html(body: str, title: str = "Page") -> SiteAnswer:
    return SiteAnswer(200, f"<html lang=en><head><title>{title}</title></head><body>{body}</body></html>".encode())


def text(number: int) -> str:
    """Return a paragraph that resembles no other."""
    ends = ("abcdefghij"[(number * 7 + n) % 10] * (1 + number % 5) for n in range(15))
    return f"<p>{' '.join(map(str.__add__, WORDS.split(), ends))}</p>"


@asynccontextmanager
async def a_site(home: Path, **settings: Any) -> AsyncIterator[Service]:
    async with open_service(home, **settings) as opened:
        yield opened


@pytest.fixture
async def odd(tmp_path: Path) -> AsyncIterator[Service]:
    async with a_site(tmp_path) as opened:
        opened.site.answers["/sitemap.xml"] = SiteAnswer(404)
        yield opened


async def crawl(service: Service, path: str = "/", **job: Any) -> dict[str, Any]:
    made = await service.client.post("/api/v1/sites/crawls", json={"url": service.site.url(path), **job})
    assert made.status_code == 202, made.text
    await service.work()
    job_id = made.json()["data"]["job_id"]
    return dict((await service.client.get(f"/api/v1/jobs/{job_id}")).json()["data"])


async def stored(service: Service) -> dict[str, dict[str, Any]]:
    answer = await service.client.get(f"/api/v1/sites/{service.site.endpoint}/pages?content=true&limit=1000")
    return {page["url"].removeprefix(service.site.url("")): page for page in answer.json()["data"]}


async def letters(service: Service) -> list[dict[str, Any]]:
    return list((await service.client.get("/api/v1/dead")).json()["data"])


@pytest.mark.parametrize(
    ("answer", "reason", "told"),
    [
        (SiteAnswer(404, b"no"), "not_found", "Correct the address"),
        (SiteAnswer(302, headers={"Location": "http://127.0.0.2/"}), "egress_refused", "redirects to"),
        (SiteAnswer(200, b"%PDF-1.7 binary", b"application/pdf"), "not_a_page", "forager scrape"),
        (SiteAnswer(302, headers={"Location": "/start"}), "too_many_redirects", "redirects more than"),
        (SiteAnswer(200, b"<html>", padding=11 * 1024 * 1024), "too_large", "10 MiB"),
    ],
)
async def test_a_first_page_that_cannot_be_read_fails_the_crawl_with_the_reason(
    odd: Service, answer: SiteAnswer, reason: str, told: str
) -> None:
    odd.site.answers["/start"] = answer
    job = await crawl(odd, "/start")
    assert (job["failed"], job["state"]) == (1, "partially_completed")
    (letter,) = await letters(odd)
    assert letter["reason"] == reason, letter
    assert told in letter["error"] or reason == "too_large"


async def test_a_first_page_that_redirects_to_another_site_names_it(odd: Service) -> None:
    other = odd.site.url("/elsewhere").replace("127.0.0.1", "localhost")
    odd.site.answers["/start"] = SiteAnswer(302, headers={"Location": other})
    odd.site.answers["/elsewhere"] = html(text(1))
    await crawl(odd, "/start")
    (letter,) = await letters(odd)
    assert letter["reason"] == "outside"
    assert f"redirects to {other}" in letter["error"]
    assert "Crawl that address" in letter["error"]


async def test_pages_in_any_encoding_are_read(odd: Service) -> None:
    pages = {
        "/latin": ("Größe und Maße, Tür und Tor", "iso-8859-1", b"text/html; charset=iso-8859-1"),
        "/cyrillic": ("Дом у реки стоит давно", "cp1251", b"text/html; charset=windows-1251"),
        "/japanese": ("古い家が川のそばにある", "shift_jis", b"text/html; charset=shift_jis"),
        "/utf16": ("Größe und Tür", "utf-16", b"text/html"),
        "/wrong": ("Größe und Tür", "iso-8859-1", b"text/html; charset=utf-8"),
        "/unknown": ("Garden and house", "utf-8", b"text/html; charset=klingon"),
    }
    odd.site.answers["/"] = html("".join(f'<a href="{path}">{path}</a>' for path in pages))
    for path, (words, charset, kind) in pages.items():
        body = f"<html><head><title>{words}</title></head><body><p>{words}. {WORDS}</p></body></html>"
        odd.site.answers[path] = SiteAnswer(200, body.encode(charset), kind)
    job = await crawl(odd)
    assert (job["state"], job["failed"]) == ("completed", 0)
    seen = await stored(odd)
    for path in ("/latin", "/cyrillic", "/japanese", "/utf16", "/unknown"):
        assert pages[path][0] in seen[path]["content"], path
    assert "und T" in seen["/wrong"]["content"], "what can be read is"


async def test_hostile_pages_fail_alone_and_the_crawl_ends(odd: Service) -> None:
    odd.site.answers |= {
        "/": html(
            '<a href="/deep">a</a><a href="/nul">b</a><a href="/empty">c</a><a href="/good">d</a>'
            '<a href="javascript:alert(1)">x</a><a href="http://[::1">y</a><a href="//">z</a>'
            '<a href="/broken">e</a><a href="http://127.0.0.1:1/">p</a>'
            '<a href="data:text/html,hi">q</a><a href="/good#frag">r</a><a href="/%zz">s</a><a href="/\x00">t</a>'
        ),
        "/deep": html("<div>" * 60_000 + "deep"),
        "/nul": SiteAnswer(200, b"<html>\x00\x00<body>\xff\xfe<p>words" + b"\x00" * 1000),
        "/empty": SiteAnswer(200, b""),
        "/broken": SiteAnswer(200, b"<html><body><p><a href='/good'>" + b"<" * 100_000),
        "/good": html(text(1), "Good"),
    }
    job = await crawl(odd)
    assert job["finished_at"] is not None
    seen = await stored(odd)
    assert seen["/good"]["title"] == "Good"
    assert all(visit.host in ("127.0.0.1", "") for visit in odd.site.log)


@pytest.mark.parametrize("same", [True, False])
async def test_an_endless_list_of_pages_is_left(odd: Service, same: bool) -> None:
    def listed(request: WireRequest) -> SiteAnswer:
        number = int(request.query.partition("=")[2] or 0)
        return html(f'{text(0 if same else number)}<a rel=next href="/list?page={number + 1}">next</a>')

    odd.site.answers["/"] = html('<a href="/list?page=1">list</a>')
    odd.site.answers["/list"] = listed
    job = await crawl(odd, limit=500)
    assert job["failed"] == 0
    asked = len([visit for visit in odd.site.log if visit.path == "/list"])
    assert asked <= (10 if same else 60), "pages that lead only to each other"


async def test_a_loop_of_links_that_grow_by_themselves_is_left(odd: Service) -> None:
    def grows(request: WireRequest) -> SiteAnswer:
        return html(f'{text(len(request.path))}<a href="{request.path.rstrip("/")}/more/">deeper</a>')

    for depth in range(120):
        odd.site.answers["/grow/" + "more/" * depth] = grows
    odd.site.answers["/"] = html('<a href="/grow/">grow</a>')
    await crawl(odd, limit=500, depth=100)
    assert len([visit for visit in odd.site.log if visit.path.startswith("/grow")]) <= 10


async def test_what_robots_txt_refuses_is_never_requested_and_counted_as_such(odd: Service) -> None:
    odd.site.set_robots("User-agent: *\nDisallow: /secret\n")
    odd.site.answers |= {"/": html('<a href="/secret/1">s</a><a href="/open">o</a>'), "/open": html(text(2))}
    job = await crawl(odd)
    assert (job["failed"], job["skipped"]) == (0, 1)
    assert not odd.site.visits("/secret/1")
    refused = await crawl(odd, "/secret/0")
    assert refused["state"] in ("failed", "partially_completed", "completed")
    assert not odd.site.visits("/secret/0")


async def test_two_crawls_of_one_site_at_once_both_end_with_all_pages(odd: Service) -> None:
    paths = [f"/p{number}" for number in range(30)]
    odd.site.answers["/"] = html("".join(f'<a href="{path}">{path}</a>' for path in paths))
    for number, path in enumerate(paths):
        odd.site.answers[path] = html(text(number), f"Page {number}")
    bodies = [{"url": odd.site.url("/"), "form": form} for form in ("markdown", "text")]
    made = await asyncio.gather(*(odd.client.post("/api/v1/sites/crawls", json=body) for body in bodies))
    await odd.work()
    for each in made:
        job = (await odd.client.get(f"/api/v1/jobs/{each.json()['data']['job_id']}")).json()["data"]
        assert (job["state"], job["failed"]) == ("completed", 0)
    rows = (await odd.client.get("/api/v1/sites")).json()["data"]
    assert [row["pages"] for row in rows] == [31, 31]
    seen = await stored(odd)
    assert set(seen) == {"/", *paths}


async def test_a_page_of_the_other_www_host_is_part_of_the_site() -> None:
    from forager.pipelines.sites.addresses import Scope

    for host, other in (("docs.example", "www.docs.example"), ("www.docs.example", "docs.example")):
        assert Scope(host).refusal(f"https://{other}/guide", 2026) is None
        assert Scope(host).refusal("https://wwwdocs.example/guide", 2026) == "outside"
        assert Scope(host).refusal("https://blog.docs.example/", 2026) == "outside"
