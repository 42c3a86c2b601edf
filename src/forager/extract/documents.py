"""PDF and DOCX files as HTML, so that everything that reads pages reads them too: Markdown, links, schemas. Pure.

A file comes from a site and may be hostile. It is read where pages are read, in a process with limits of CPU time and
memory; here its number of pages, its unpacked size and its text are limited, and XML with entities is refused.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Literal
from zipfile import BadZipFile, ZipFile

DocumentKind = Literal["PDF", "DOCX"]
MOST_PAGES = 300
MOST_TEXT = 2_000_000
"""Characters of a file's text; what follows is left out."""
MOST_UNPACKED = 64 * 1024 * 1024
MOST_PARTS = 5_000
LONGEST_HEADING = 200
HEADING = 1.15
"""Size of a heading's letters relative to those of the text."""
GAP = 1.7
"""Distance of two lines, in heights of a line, from which a new paragraph begins."""
_PACKAGES = {"PDF": "pypdf", "DOCX": "mammoth"}
_DOCX = "word/document.xml"
_BULLET = re.compile(r"^\s*(?:[•◦▪‣∙·*–-]|\(?\d{1,3}[.)])\s+")
_ENTITY = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


class UnreadableFile(ValueError):
    """A file is damaged, encrypted, too large, or holds no text."""


def document_kind(body: bytes) -> DocumentKind | None:
    """Return which kind of file this is, by its first bytes; None for anything else."""
    if body[:1024].lstrip().startswith(b"%PDF-"):
        return "PDF"
    if body.startswith(b"PK\x03\x04") and _DOCX.encode() in body:
        return "DOCX"
    return None


def is_installed(kind: DocumentKind) -> bool:
    """Return whether the package that reads this kind is installed (the extra `documents`)."""
    return find_spec(_PACKAGES[kind]) is not None


def document_html(body: bytes) -> str:
    """Return the text of a file as an HTML page. Raises `UnreadableFile` with the reason."""
    html = _docx(body) if document_kind(body) == "DOCX" else _pdf(body)
    if not re.search(r">[^<\s]", html.partition("<main>")[2]):
        raise UnreadableFile("it has no text; it may be a scan")
    return html


# DOCX


def _docx(body: bytes) -> str:
    import mammoth

    try:
        with ZipFile(BytesIO(body)) as file:
            parts = file.infolist()
            if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_UNPACKED:
                raise UnreadableFile(f"it unpacks to more than {MOST_UNPACKED // 1024 // 1024} MB")
            for part in parts:
                if part.filename.endswith((".xml", ".rels")) and _ENTITY.search(file.read(part)):
                    raise UnreadableFile("its XML declares entities")
        no_pictures = mammoth.images.img_element(lambda _: {"src": ""})
        content = mammoth.convert_to_html(BytesIO(body), convert_image=no_pictures).value
    except (BadZipFile, KeyError, OSError, RuntimeError, NotImplementedError) as error:
        raise UnreadableFile(f"it is damaged ({type(error).__name__})") from error
    return _page("", content[:MOST_TEXT])


# PDF: its text has no structure, so headings are found by size, paragraphs by distance, lists by their bullets.


@dataclass(slots=True)
class _Line:
    text: str
    size: float
    y: float
    page: int


def _pdf(body: bytes) -> str:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableFile("it is encrypted with a password")
        lines: list[_Line] = []
        left = MOST_TEXT
        for number, page in enumerate(reader.pages):
            if number >= MOST_PAGES or left <= 0:
                break
            found = _lines_of(page, number)
            left -= sum(len(line.text) for line in found)
            lines += found
        title = str((reader.metadata.title if reader.metadata else None) or "")
    except (PyPdfError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OSError) as error:
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(f"it is damaged ({type(error).__name__})") from error
    return _page(title, "\n".join(_blocks(lines)).replace("</ul>\n<ul>", ""))


def _lines_of(page: Any, number: int) -> list[_Line]:
    """Return the lines of one page from top to bottom, as the file has them."""
    lines: list[_Line] = []

    def visit(text: str, user: Any, matrix: Any, _font: Any, size: float | None) -> None:
        scale = abs(float(matrix[3]) * float(user[3])) or 1.0
        height = abs(float(size or 0.0)) * scale or 10.0
        y = float(matrix[5]) * float(user[3]) + float(user[5])
        for n, piece in enumerate(text.split("\n")):
            words = " ".join(piece.split())
            same = n == 0 and lines and abs(lines[-1].y - y) < height * 0.4
            if same:
                blank = " " if piece[:1].isspace() and not lines[-1].text.endswith(" ") else ""
                lines[-1].text += blank + words
                lines[-1].size = max(lines[-1].size, height) if words else lines[-1].size
            elif words:
                lines.append(_Line(words, height, y, number))

    page.extract_text(visitor_text=visit)
    return [line for line in lines if line.text.strip()]


def _blocks(lines: list[_Line]) -> Iterator[str]:
    """Yield headings, list entries and paragraphs as HTML."""
    sizes = Counter[float]()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0] if sizes else 10.0
    larger = sorted({size for size in sizes if size >= body * HEADING}, reverse=True)
    level = {size: min(number, 3) for number, size in enumerate(larger, 1)}
    words: list[str] = []
    is_entry, before = False, None

    def ended() -> Iterator[str]:
        if words:
            text = escape(_joined(words))
            yield f"<ul><li>{_BULLET.sub('', text)}</li></ul>" if is_entry else f"<p>{text}</p>"
            words.clear()

    for line in lines:
        rank = level.get(round(line.size, 1))
        if rank is not None and len(line.text) <= LONGEST_HEADING:
            yield from ended()
            yield f"<h{rank}>{escape(line.text)}</h{rank}>"
        else:
            bullet = _BULLET.match(line.text) is not None
            if bullet or (before is not None and _apart(before, line)):
                yield from ended()
                is_entry = bullet
            elif not words:
                is_entry = bullet
            words.append(line.text)
        before = line
    yield from ended()


def _apart(before: _Line, line: _Line) -> bool:
    """Return whether a line begins a new paragraph: after a gap, or after a sentence that ends a page."""
    if before.page != line.page:
        return before.text.rstrip().endswith((".", "!", "?", ":", "。"))
    return abs(before.y - line.y) > GAP * max(before.size, 1.0)


def _joined(words: list[str]) -> str:
    """Join lines to a paragraph. A word that is divided at the end of a line becomes whole."""
    text = words[0]
    for line in words[1:]:
        divided = text.endswith("-") and len(text) > 1 and text[-2].isalpha() and line[:1].islower()
        text = text[:-1] + line if divided else f"{text} {line}"
    return text


def _page(title: str, content: str) -> str:
    return f"<!doctype html><html><head><title>{escape(title)}</title></head><body><main>{content}</main></body></html>"
