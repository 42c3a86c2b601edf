"""Fidelity of Markdown to the page's own tree: links, pictures, tables, code, lists, headings and quotes.

An element of the page counts if the Markdown has its text: the choice of the main content is scored by words, and not a
second time here. It is right if a CommonMark parser finds the same thing in the Markdown: the heading with its level,
the link with its resolved address, the row with its cells. The tree is read here by the parser's own selectors,
independently of the converter.
"""

import re
from collections import Counter
from urllib.parse import urljoin

from markdown_it import MarkdownIt
from markdown_it.token import Token
from selectolax.lexbor import LexborHTMLParser, LexborNode

PARTS = ("links", "images", "tables", "code", "lists", "headings", "quotes")
WORD = re.compile(r"\w+")
_BLOCKS = frozenset(
    "body div p li td th dd dt section article main aside header footer nav blockquote figure h1 h2 h3 h4 h5 h6".split()
)
_UNSEEN = "script, style, noscript, template, svg, button, [hidden], [aria-hidden=true], select, textarea, math"


def plain(text: str) -> str:
    return " ".join(WORD.findall(text.lower()))


class Parsed:
    """The elements that a CommonMark parser (with tables) finds in a text."""

    def __init__(self, markdown: str) -> None:
        self.links: Counter[str] = Counter()
        self.images: set[str] = set()
        self.headings: set[tuple[int, str]] = set()
        self.code: list[str] = []
        self.items: list[str] = []
        self.rows: set[tuple[str, ...]] = set()
        self.quotes: list[str] = []
        self.words = ""
        self.empty_headings = 0
        self._read(MarkdownIt("commonmark").enable("table").parse(markdown))

    def _read(self, tokens: list[Token]) -> None:
        said: list[str] = []
        open_items: list[list[str]] = []
        open_quotes: list[list[str]] = []
        row: list[str] = []
        for at, token in enumerate(tokens):
            kind = token.type
            if kind in ("fence", "code_block"):
                self.code.append(token.content)
                said.append(token.content)
                for each in (*open_items, *open_quotes):
                    each.append(token.content)
            elif kind == "list_item_open":
                open_items.append([])
            elif kind == "list_item_close":
                self.items.append(plain(" ".join(open_items.pop())))
            elif kind == "blockquote_open":
                open_quotes.append([])
            elif kind == "blockquote_close":
                self.quotes.append(plain(" ".join(open_quotes.pop())))
            elif kind == "tr_open":
                row = []
            elif kind == "tr_close":
                self.rows.add(tuple(row))
            elif kind == "inline":
                text = self._inline(token)
                said.append(text)
                for each in (*open_items, *open_quotes):
                    each.append(text)
                before = tokens[at - 1].type
                if before == "heading_open":
                    self.headings.add((int(tokens[at - 1].tag[1]), plain(text)))
                    self.empty_headings += not text.strip()
                elif before in ("td_open", "th_open"):
                    row.append(plain(text))
        self.words = f" {plain(' '.join(said))} "

    def _inline(self, token: Token) -> str:
        pieces = []
        for child in token.children or ():
            if child.type == "link_open":
                self.links[str(child.attrGet("href"))] += 1
            elif child.type == "image":
                self.images.add(str(child.attrGet("src")))
            elif child.type in ("text", "code_inline"):
                pieces.append(child.content)
            elif child.type in ("softbreak", "hardbreak", "html_inline"):
                pieces.append(" ")
        return "".join(pieces)


def fidelity(html: str, url: str, markdown: str) -> dict[str, tuple[int, int]]:
    """Return (right, of) for each of `PARTS`."""
    tree = LexborHTMLParser(html)
    for node in tree.css(_UNSEEN):
        node.decompose()
    found = Parsed(markdown)
    base = tree.css_first("base[href]")
    root = urljoin(url, (base.attributes.get("href") or "").strip()) if base else url
    body = tree.body
    if body is None:
        return dict.fromkeys(PARTS, (0, 0))
    return {
        "links": _links(body, root, found),
        "images": _images(body, root, found),
        "tables": _tables(body, found),
        "code": _code(body, found),
        "lists": _items(body, found),
        "headings": _headings(body, found),
        "quotes": _quotes(body, found),
    }


def wrong_links(html: str, url: str, markdown: str) -> tuple[int, int]:
    """Return how many links of the Markdown have an address that no link of the page has, and how many it has."""
    tree = LexborHTMLParser(html)
    base = tree.css_first("base[href]")
    root = urljoin(url, (base.attributes.get("href") or "").strip()) if base else url
    known = {_address(root, node.attributes.get("href") or "") for node in tree.css("a[href]")}
    links = Parsed(markdown).links
    return sum(count for href, count in links.items() if _same(href) not in known), links.total()


def _same(url: str) -> str:
    """An address without differences of escaping."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), url).strip()


def _address(root: str, href: str) -> str:
    try:
        return _same(urljoin(root, href.strip()))
    except ValueError:
        return href


def _text(node: LexborNode) -> str:
    return plain(node.text(separator=" "))


def _block(node: LexborNode) -> LexborNode:
    parent = node.parent
    while parent is not None and parent.parent is not None and parent.tag not in _BLOCKS:
        parent = parent.parent
    return parent or node


def _shown(text: str, found: Parsed, least: int, most: int = 12) -> bool:
    words = text.split()
    return len(words) >= least and f" {' '.join(words[:most])} " in found.words


def _links(body: LexborNode, root: str, found: Parsed) -> tuple[int, int]:
    right = of = 0
    targets = {_same(href) for href in found.links}
    for node in body.css("a[href]"):
        href = (node.attributes.get("href") or "").strip()
        text = _text(node)
        if not text or not href or href.startswith(("#", "javascript:", "data:")):
            continue
        if _shown(_text(_block(node)), found, 6, 30) and f" {text} " in found.words:
            of += 1
            right += _address(root, href) in targets
    return right, of


def _images(body: LexborNode, root: str, found: Parsed) -> tuple[int, int]:
    right = of = 0
    sources = {_same(source) for source in found.images}
    for node in body.css("article img[src], main img[src]"):
        source = (node.attributes.get("src") or "").strip()
        near: LexborNode | None = node.parent
        while near is not None and len(_text(near).split()) < 15:
            near = near.parent
        if not source or source.startswith("data:") or near is None:
            continue
        words = _text(near).split()
        if len(words) < 400 and all(f" {' '.join(part)} " in found.words for part in (words[:8], words[-8:])):
            of += 1
            right += _address(root, source) in sources
    return right, of


def _tables(body: LexborNode, found: Parsed) -> tuple[int, int]:
    right = of = 0
    for table in body.css("table"):
        if table.css("table table, table h2, table h3, table form"):
            continue
        rows = [[_text(cell) for cell in row.css("td, th")] for row in table.css("tr")]
        rows = [[cell for cell in row if cell] for row in rows]
        for row in [row for row in rows if len(row) >= 2] if len(rows) >= 2 else ():
            if sum(len(cell.split()) for cell in row) >= 4 and all(_shown(cell, found, 1) for cell in row):
                of += 1
                right += any(_has_cells(each, row) for each in found.rows)
    return right, of


def _has_cells(row: tuple[str, ...], cells: list[str]) -> bool:
    return [cell for cell in row if cell] == cells


def _code(body: LexborNode, found: Parsed) -> tuple[int, int]:
    right = of = 0
    blocks = {re.sub(r"\s+", "", code) for code in found.code}
    for node in body.css("pre"):
        if _shown(_text(node), found, 3):
            of += 1
            right += re.sub(r"\s+", "", node.text()) in blocks
    return right, of


def _items(body: LexborNode, found: Parsed) -> tuple[int, int]:
    right = of = 0
    for node in body.css("ul > li, ol > li"):
        words = _text(node).split()
        if _shown(" ".join(words), found, 4):
            of += 1
            head = " ".join(words[:8])
            right += any(item.startswith(head) for item in found.items)
    return right, of


def _headings(body: LexborNode, found: Parsed) -> tuple[int, int]:
    right = of = 0
    for level in range(1, 7):
        for node in body.css(f"h{level}"):
            text = _text(node)
            if _shown(text, found, 2, 40):
                of += 1
                right += (level, text) in found.headings
    return right, of


def _quotes(body: LexborNode, found: Parsed) -> tuple[int, int]:
    right = of = 0
    for node in body.css("blockquote"):
        words = _text(node).split()
        if _shown(" ".join(words), found, 4):
            of += 1
            right += any(" ".join(words[:8]) in quote for quote in found.quotes)
    return right, of
