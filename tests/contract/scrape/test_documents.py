"""PDF and DOCX files as pages: Markdown, links and schemas of them; damaged and hostile ones fail alone."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile
from zlib import compress

import pytest

from forager.extract.documents import UnreadableFile, document_html, document_kind
from forager.sandbox.scrape_pages import SiteAnswer
from tests.support.scrape import Service

PDF = b"application/pdf"
WORD = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document"
LINES = (
    (22, 760, "Growing bogs"),
    (11, 720, "A bog stores water, and it takes cen-"),
    (11, 706, "turies until it has grown as deep as this one."),
    (11, 670, "A second paragraph is about the moss that grows on it."),
    (16, 630, "What to bring"),
    (11, 600, "- Boots that keep the water out"),
    (11, 586, "- A map of the paths & the bridges"),
)


def pdf(lines: Sequence[tuple[int, int, str]] = LINES, content: bytes | None = None) -> bytes:
    """A PDF file of one page with these lines: size, height over the lower edge, text."""
    text = "\n".join(f"BT /F1 {size} Tf 1 0 0 1 60 {y} Tm ({words}) Tj ET" for size, y, words in lines)
    stream = content if content is not None else text.encode("latin-1")
    packed = compress(stream)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R"
            b" /Resources << /Font << /F1 4 0 R >> >> >>"
        ),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed),
    ]
    out, offsets = bytearray(b"%PDF-1.4\n"), []
    for number, each in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    start = len(out)
    out += b"xref\n0 6\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    return bytes(out + b"trailer << /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start)


W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
BODY = (
    '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Growing bogs</w:t></w:r></w:p>'
    "<w:p><w:r><w:t>A bog stores water, and it takes centuries until it has grown.</w:t></w:r></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Moss</w:t></w:r></w:p></w:tc>"
    "<w:tc><w:p><w:r><w:t>12 cm</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
)


def docx(body: str = BODY, *, before: str = "", more: dict[str, bytes] | None = None) -> bytes:
    parts = {
        "[Content_Types].xml": b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        b'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        b'<Default Extension="xml" ContentType="application/xml"/></Types>',
        "_rels/.rels": b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
        b'<Relationship Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
        b' Target="word/document.xml"/></Relationships>',
        "word/styles.xml": f'<w:styles xmlns:w="{W}"><w:style w:type="paragraph" w:styleId="Heading1">'
        '<w:name w:val="heading 1"/></w:style></w:styles>'.encode(),
        "word/document.xml": f'{before}<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'.encode(),
        **(more or {}),
    }
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return file.getvalue()


async def read(service: Service, body: bytes, kind: bytes, **more: Any) -> Any:
    service.site.answers["/file"] = SiteAnswer(200, body, kind)
    return await service.sync("/file", **{"target_type": "page", "render": "auto", **more})


async def test_a_pdf_file_becomes_markdown_with_headings_paragraphs_and_lists(simple: Service) -> None:
    answer = await read(simple, pdf(), PDF)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"]["result"]["markdown"].split("\n\n") == [
        "# Growing bogs",
        "A bog stores water, and it takes centuries until it has grown as deep as this one.",
        "A second paragraph is about the moss that grows on it.",
        "## What to bring",
        "- Boots that keep the water out\n- A map of the paths & the bridges",
    ]
    assert answer.json()["meta"]["rendered"] is False


async def test_a_docx_file_becomes_markdown_with_its_table(simple: Service) -> None:
    answer = await read(simple, docx(), WORD)
    assert answer.status_code == 200, answer.text
    markdown = answer.json()["data"]["result"]["markdown"]
    assert markdown.startswith("# Growing bogs\n\nA bog stores water")
    assert "| Moss | 12 cm |" in markdown


@pytest.mark.parametrize(("body", "kind"), [(pdf(), PDF), (docx(), WORD), (pdf(), b"application/octet-stream")])
async def test_a_schema_reads_a_file_and_a_stored_file_answers_again(simple: Service, body: bytes, kind: bytes) -> None:
    schema = {"fields": {"heading": {"css": "h1"}}}
    first = await read(simple, body, kind, page_schema=schema, max_age=3600)
    assert first.json()["data"]["result"] == {"heading": "Growing bogs"}
    again = await read(simple, body, kind, formats=["text"], max_age=3600)
    assert again.json()["meta"]["stored"] is True
    assert "stores water" in again.json()["data"]["result"]["text"]


BOMB = docx(more={"word/media/big.bin": b"\0" * (65 * 1024 * 1024)})
LAUGHS = '<!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (b"%PDF-1.7\nnothing of a file", PDF, "damaged"),
        (pdf()[:300], PDF, ""),
        (pdf(lines=()), PDF, "no text"),
        (docx()[:400], WORD, ""),
        (docx(body=""), WORD, "no text"),
        (docx(before=LAUGHS), WORD, "entities"),
        (BOMB, WORD, "64 MB"),
    ],
)
async def test_a_file_that_cannot_be_read_fails_with_its_reason(
    simple: Service, body: bytes, kind: bytes, message: str
) -> None:
    answer = await read(simple, body, kind)
    assert answer.status_code == 502, answer.text
    assert answer.json()["meta"]["reason"] == "not_a_page"
    assert message in answer.json()["error"]


async def test_a_file_that_takes_too_long_fails_alone(simple: Service) -> None:
    """A content stream of 80 MB, packed to 80 KB, whose operators are all executed."""
    answer = await read(simple, pdf(content=b"BT (a) Tj ET\n" * 6_000_000), PDF, timeout_seconds=120)
    assert answer.status_code == 502, answer.text
    assert answer.json()["meta"]["reason"] in ("parse_late", "parse_crashed", "not_a_page")
    assert (await read(simple, pdf(), PDF)).status_code == 200


def test_kinds_are_recognised_by_the_first_bytes() -> None:
    assert [document_kind(each) for each in (pdf(), docx(), b"PK\x03\x04...", b"<html>")] == ["PDF", "DOCX", None, None]


def test_a_file_of_many_pages_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forager.extract.documents.MOST_TEXT", 20)
    assert "stores" in document_html(pdf())
    monkeypatch.setattr("forager.extract.documents.MOST_PAGES", 0)
    with pytest.raises(UnreadableFile, match="no text"):
        document_html(pdf())
