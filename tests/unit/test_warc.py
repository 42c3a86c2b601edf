"""WARC files as other tools read them: `warcio` checks every digest, and the index leads to each response."""

import gzip
import hashlib
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from forager.sdk.warc import CapturedPage, WarcWriter, cdxj, surt, write_wacz

AT = datetime(2026, 3, 14, 12, 4, 0, 120_000, tzinfo=UTC)
PAGES = [
    CapturedPage("https://shop.example/p/1?b=2&a=1", AT, 200, "text/html; charset=utf-8", b"<p>one</p>", {"id": "1"}),
    CapturedPage("https://www.shop.example/ä b", AT, 404, "text/html", b"", {"id": "two\r\nWARC-Type: forged"}),
    CapturedPage("http://other.example:8080", AT, 299, "image/png\r\nX: y", bytes(range(256)) * 300, {}),
]


def written() -> tuple[bytes, WarcWriter]:
    file = io.BytesIO()
    writer = WarcWriter(file, "pages.warc.gz")
    for page in PAGES:
        writer.add(page)
    return file.getvalue(), writer


def test_warcio_reads_every_record_and_finds_no_wrong_digest(tmp_path: Path) -> None:
    content, _ = written()
    (tmp_path / "pages.warc.gz").write_bytes(content)
    records: list[Any] = [
        (record.rec_type, record.rec_headers, record.http_headers, record.content_stream().read())
        for record in ArchiveIterator(io.BytesIO(content), check_digests="raise")
    ]
    assert [kind for kind, *_ in records] == ["warcinfo", *["response", "request", "metadata"] * len(PAGES)]
    responses = [each for each in records if each[0] == "response"]
    assert [body for *_, body in responses] == [page.body for page in PAGES]
    assert [head.get_statuscode() for _, _, head, _ in responses] == ["200", "404", "299"]
    assert responses[0][1].get_header("WARC-Date") == "2026-03-14T12:04:00.120Z"
    assert responses[1][1].get_header("WARC-Target-URI") == "https://www.shop.example/%C3%A4%20b"
    requests = [each for each in records if each[0] == "request"]
    assert requests[0][2].protocol == "GET"
    assert requests[0][1].get_header("WARC-Concurrent-To") == responses[0][1].get_header("WARC-Record-ID")
    assert records[6][3] == b"id: two WARC-Type: forged\r\n", "a value cannot end its line"

    class Args:
        inputs = (str(tmp_path / "pages.warc.gz"),)
        verbose = False

    checker = Checker(Args())
    checker.process_all()
    assert checker.exit_value == 0


def test_the_index_is_sorted_and_leads_to_each_response() -> None:
    content, writer = written()
    lines = cdxj(writer.index).decode().splitlines()
    assert lines == sorted(lines)
    assert [line.split(" ")[0] for line in lines] == [
        "example,other:8080)/",
        "example,shop)/%c3%a4%20b",
        "example,shop)/p/1?a=1&b=2",
    ]
    for line in lines:
        key, moment, known = line.split(" ", 2)
        about = json.loads(known)
        start, length = int(about["offset"]), int(about["length"])
        record = gzip.decompress(content[start : start + length]).decode(errors="replace")
        assert record.startswith("WARC/1.1\r\nWARC-Type: response")
        assert (moment, about["filename"]) == ("20260314120400", "pages.warc.gz")
        assert f"WARC-Target-URI: {about['url']}\r\n" in record
        assert key == surt(about["url"])


def test_a_wacz_package_has_its_parts_with_their_digests() -> None:
    content, writer = written()
    file = io.BytesIO()
    pages = [{"id": "1", "url": PAGES[0].url, "ts": "2026-03-14T12:04:00Z"}]
    write_wacz(file, io.BytesIO(content), "pages.warc.gz", writer.index, pages)
    with zipfile.ZipFile(file) as package:
        assert package.testzip() is None
        assert package.getinfo("archive/pages.warc.gz").compress_type == zipfile.ZIP_STORED
        about = json.loads(package.read("datapackage.json"))
        for each in about["resources"]:
            assert each["hash"] == f"sha256:{hashlib.sha256(package.read(each['path'])).hexdigest()}"
        whole = json.loads(package.read("datapackage-digest.json"))
        assert whole["hash"] == f"sha256:{hashlib.sha256(package.read('datapackage.json')).hexdigest()}"
        listed = [json.loads(line) for line in package.read("pages/pages.jsonl").splitlines()]
        assert listed[0]["format"] == "json-pages-1.0"
        assert listed[1:] == pages
        assert {each["path"] for each in about["resources"]} == {
            "archive/pages.warc.gz",
            "indexes/index.cdxj",
            "pages/pages.jsonl",
        }


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.Shop.example/A?x=1", "example,shop)/a?x=1"),
        ("http://127.0.0.1:8000/", "127.0.0.1:8000)/"),
        ("https://a.example:443", "example,a)/"),
        ("http://[::1]/x", "::1)/x"),
    ],
)
def test_keys_of_urls(url: str, key: str) -> None:
    assert surt(url) == key
