"""Sitemaps of any form: every address is found once, in parts as well, in little memory and without long pauses."""

import gzip
import tracemalloc

import pytest

from forager.extract.sitemaps import LARGEST, PIECE, from_robots, is_index, locations
from tests.support.cpu_time import cpu_ns

URLS = [f"https://shop.example/p/{'x' * (number % 90)}/{number}?a=1&b=2" for number in range(5_000)]


def xml(urls: list[str]) -> bytes:
    entries = (f"<url>\n  <loc> {url.replace('&', '&amp;')}\n</loc><lastmod>2026</lastmod></url>" for url in urls)
    return ("<?xml version='1.0'?><urlset>" + "".join(entries) + "</urlset>").encode()


def named(urls: list[str]) -> bytes:
    return ("<s:urlset>" + "".join(f"<s:loc><![CDATA[{url}]]></s:loc>" for url in urls) + "</s:urlset>").encode()


FORMS = {
    "xml": xml(URLS),
    "with a name space": named(URLS),
    "text": "\n".join(URLS).encode(),
    "text with carriage returns": "\r\n".join([*URLS, ""]).encode(),
    "gzip": gzip.compress(xml(URLS)),
    "gzip members": gzip.compress(xml(URLS[:3_000])) + gzip.compress(xml(URLS[3_000:])),
    "gzip text": gzip.compress("\n".join(URLS).encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_address_is_found_once_and_in_parts__PR_1(form: str) -> None:
    body = FORMS[form]
    assert [url for _, url in locations(body)] == URLS
    start, found = 0, []
    while part := [pair for pair, _ in zip(locations(body, start), range(700), strict=False)]:
        found += [url for _, url in part]
        start = part[-1][0]
    assert found == URLS


def test_an_address_may_stand_where_two_pieces_meet__PR_1() -> None:
    for shift in range(-40, 40):
        body = b"<urlset>" + b" " * (PIECE + shift) + b"<loc>https://shop.example/p/1</loc>"
        assert [url for _, url in locations(body)] == ["https://shop.example/p/1"]
        lines = b"x" * (PIECE + shift) + b"\nhttps://shop.example/p/1\n"
        assert [url for _, url in locations(lines)] == ["https://shop.example/p/1"]


def test_damage_keeps_what_comes_before_it__PR_1() -> None:
    whole = gzip.compress(xml(URLS))
    found = [url for _, url in locations(whole[: len(whole) // 2])]
    assert 1_000 < len(found) < 4_000
    assert found == URLS[: len(found)]
    assert list(locations(b"\x1f\x8bnothing")) == []


def test_an_index_is_recognised__PR_1() -> None:
    assert is_index(gzip.compress(b"<?xml?><sitemapindex ><sitemap><loc>https://a.example/1</loc>"))
    assert is_index(b"<s:sitemapindex>")
    assert not is_index(xml(URLS[:3]))
    assert from_robots(b"User-agent: *\nSitemap: https://a.example/s.xml\nsitemap:https://a.example/t.xml") == [
        "https://a.example/s.xml", "https://a.example/t.xml",
    ]  # fmt: skip


@pytest.mark.parametrize("filling", [b"\0", b"<loc>", b"\nhttps://shop.example/p/1"])
def test_a_sitemap_that_unpacks_to_its_largest_size_takes_little_memory__PR_1(filling: bytes) -> None:
    packed = gzip.compress(filling * (LARGEST // len(filling) + 10), 1)
    tracemalloc.start()
    try:
        for _ in locations(packed):
            pass
        assert tracemalloc.get_traced_memory()[1] <= 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "line",
    [b"https://shop.example/" + b"a" * 4_000_000, b"<loc>" + b" " * 4_000_000, b"<loc>" * 800_000, b"<a" * 2_000_000],
)
def test_a_sitemap_of_one_long_line_is_read_in_linear_time__PR_1(line: bytes) -> None:
    assert list(locations(line)) == []
    whole = cpu_ns(lambda: list(locations(line)), times=3)
    part = cpu_ns(lambda: list(locations(line[: len(line) // 8])), times=3)
    assert whole <= 24 * part + 50_000_000
