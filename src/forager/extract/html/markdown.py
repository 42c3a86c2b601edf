"""Writes a visible tree as Markdown (CommonMark with the tables, footnotes and strikethrough of GFM). Pure.

Links and pictures are resolved before anything is written. Text of the page never becomes markup by accident: what
Markdown would read as a mark is escaped. Every element is written once, so that the cost grows with the page and not
with its nesting.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.extract.html.markdown_size import Written
from forager.extract.html.visible_tree import Body, Element, texts

LinkStyle = Literal["inline", "references", "none"]
MOST_NESTED: Final = 12
"""Levels of lists and quotes that are written as such; deeper ones are written at the last level."""
MOST_TOKENS: Final = 1_000_000
LONGEST_CELL: Final = 1_000
LONGEST_URL: Final = 4_000
MOST_COLUMNS: Final = 60

_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_EMPHASIS: Final = {
    **dict.fromkeys(("b", "strong"), "**"),
    **dict.fromkeys(("i", "em", "cite", "dfn", "var"), "*"),
    **dict.fromkeys(("del", "s", "strike"), "~~"),
}
_CODE: Final = frozenset(("code", "kbd", "samp", "tt"))
_MARKS: Final = re.compile(r"[\\`*\[\]~$]|_(?!\w)|(?<!\w)_|<(?=[A-Za-z/!?])|&(?=#?\w{1,32};)")
_LINE_START: Final = re.compile(r"^(?:([#>]|[-+](?=\s|$)|[-=]{2,}\s*$)|(\d{1,9})([.)])(?=\s|$))")
_BLANKS: Final = re.compile(r"[\s\u00a0]+")
_TICKS: Final = re.compile(r"`+")
_LANGUAGE: Final = re.compile(
    r"(?:^|\s)(?:language|lang|highlight-source|highlight|brush:|hljs|code|sourceCode)[-: ]{1,2}"
    r"([A-Za-z0-9+#.-]{1,20})(?=$|[\s;])"
)
_NO_LANGUAGE: Final = frozenset(("none", "plain", "text", "plaintext", "txt", "block", "default", "wrapper", "toolbar"))
_GUTTER: Final = re.compile(
    r"\b(?:gutter|lineno|linenos|line-?numbers?|linenumbers?|copy-?(?:btn|button))\b", re.IGNORECASE
)
_NOTE_TAGS: Final = frozenset(("li", "p", "div", "dd", "aside", "td"))
_NOTE: Final = re.compile(r"fn|foot|note|cite|ref|endnote", re.IGNORECASE)
_NOTE_MARK: Final = re.compile(r"\[?[\w*†‡]{1,4}\]?")
_PERMALINKS: Final = frozenset(("", "#", "¶", "§", "🔗", "link", "permalink", "direct link", "anchor"))
_ENDS: Final = (".", ",", ";", ":", "!", "?", "…", "。")
_SCRIPT: Final = re.compile(r"[-+−–]?\d{1,6}[-+−–]?|[a-z]|[-+−–]")
"""Text that means something else on the line: the power of a number, the index of a formula."""
_BACK: Final = frozenset(("↩", "↩︎", "^", "↑", "⤴", "back"))
_LAZY: Final = ("data-src", "data-lazy-src", "data-original", "data-lazy", "data-hi-res-src", "data-srcset", "srcset")
_LINKS: Final = frozenset(("a",))
_ROW_GROUPS: Final = frozenset(("thead", "tbody", "tfoot"))
_NOT_IN_CELLS: Final = frozenset("table h1 h2 h3 h4 h5 h6 blockquote form section article".split())
_SAFE_URL: Final = re.compile(r"[\x00-\x20<>\\\"`|^{}()\[\]]")


class MarkdownOptions(BaseModel):
    """Options of the Markdown of a page."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    links: LinkStyle = Field(
        default="inline",
        description="Links: inline; references, with the addresses at the end, each once; or none, only their words.",
    )
    images: bool = Field(default=True, description="Keep pictures, with their alternative text.")
    max_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None = Field(
        default=None, description="Cut the text at the end of a block, at about this size (4 bytes a token)."
    )
    front_matter: bool = Field(
        default=False, description="Begin with YAML: title, url, date, author, language, description."
    )


Resolve = Callable[[str], str | None]


def write_markdown(
    root: Element,
    resolve: Resolve,
    options: MarkdownOptions,
    notes: Mapping[str, Element] | None = None,
    headline: Element | None = None,
) -> Written:
    """Return the Markdown of a tree. `notes` are the `footnotes` of the whole page, whose main content it may be;
    `headline` is that of the page, written before all others if it is not a part of the tree."""
    writer = _Writer(notes or {}, resolve, options)
    blocks = writer.blocks(root, 0)
    if headline is not None and not any(each is headline for each in writer.headings):
        first: list[str] = []
        writer.heading(headline, first)
        blocks = first + blocks
    written_notes = writer.written_notes()  # before the addresses, because a note may have links
    return Written(blocks, written_notes, writer.written_addresses())


def plain_text(root: Element) -> str:
    """Return the text of a tree: a line for each block, list items with a dash, cells of a row side by side."""
    lines: list[str] = []
    _plain(root, lines, "")
    return "\n".join(lines)


def _plain(element: Element, lines: list[str], mark: str) -> None:
    if element.tag == "pre":
        code = _code_text(element).strip("\n")
        lines.extend(line for line in code.split("\n") if line.strip())
        return
    if element.tag == "tr":
        cells = [child.words() for child in element.children if isinstance(child, Element)]
        if any(cells) and not any(
            _has_any(child, _NOT_IN_CELLS) for child in element.children if isinstance(child, Element)
        ):
            lines.append(" | ".join(cells))
            return
    run: list[str] = []
    for child in element.children:
        if isinstance(child, str):
            run.append(child)
        elif child.tag == "br":
            mark = _end_line(run, lines, mark)
        elif not child.has_blocks:
            if not _is_permalink(child, element):
                run.extend(texts(child))
        else:
            mark = _end_line(run, lines, mark)
            _plain(child, lines, "- " if child.tag == "li" else mark)
    _end_line(run, lines, mark)


def _is_permalink(node: Element, around: Element) -> bool:
    """Return whether an inline element is a sign that leads to the heading around it, or back from a footnote."""
    if node.tag != "a" or not node.get("href").startswith("#"):
        return False
    return (words := node.words().lower()) in _BACK or (around.tag in _HEADINGS and words in _PERMALINKS)


def _end_line(run: list[str], lines: list[str], mark: str) -> str:
    """Add the words of a run as a line. Returns the mark of the next one: an item's mark stands once."""
    text = _BLANKS.sub(" ", "".join(run)).strip()
    run.clear()
    if not text:
        return mark
    lines.append(mark + text)
    return ""


class _Writer:
    def __init__(self, notes: Mapping[str, Element], resolve: Resolve, options: MarkdownOptions) -> None:
        self.resolve = resolve
        self.options = options
        self.references: dict[str, int] = {}
        self.notes = notes
        self.used_notes: dict[str, int] = {}
        self.headings: list[Element] = []
        """Headings that have been written."""
        self.card: str | None = None
        """Address of the link around the blocks being written, until one of them has taken it."""

    # Blocks

    def blocks(self, element: Element, nested: int) -> list[str]:
        """Return the blocks below an element."""
        found: list[str] = []
        run: list[Element | str] = []
        for child in element.children:
            if isinstance(child, str) or not child.has_blocks:
                if isinstance(child, Element) and child.tag == "br" and run and _is_break(run[-1]):
                    self.paragraph(run, found)
                    run = []
                else:
                    run.append(child)
            else:
                self.paragraph(run, found)
                run = []
                self.block(child, nested, found)
        self.paragraph(run, found)
        return found

    def block(self, element: Element, nested: int, found: list[str]) -> None:
        tag = element.tag
        if self.used_notes and element.get("id") in self.used_notes:
            return
        if tag in _HEADINGS:
            self.heading(element, found)
        elif tag in ("ul", "ol", "menu"):
            if nested < MOST_NESTED:
                self.list_of(element, nested, found)
            else:
                found.extend(self.blocks(element, nested))
        elif tag == "dl" and _is_definitions(element):
            self.definitions(element, nested, found)
        elif tag == "blockquote":
            _part_source(element)
            inner = self.blocks(element, nested + 1)
            if inner and nested < MOST_NESTED:
                lines = "\n\n".join(inner).split("\n")
                found.append("\n".join(f"> {line}" if line else ">" for line in lines))
            else:
                found.extend(inner)
        elif tag == "pre":
            self.code(element, found)
        elif tag == "table":
            rows = _data_rows(element)
            if rows is not None:
                for caption in (each for each in element.children if isinstance(each, Element)):
                    if caption.tag == "caption":
                        found.extend(self.blocks(caption, nested))
                self.table(rows, found)
            else:
                found.extend(self.blocks(element, nested))
        elif tag == "hr":
            if found and found[-1] != "---":
                found.append("---")
        elif tag == "summary":
            is_plain = not any(isinstance(child, Element) and child.has_blocks for child in element.children)
            words = self.inline(element.children, heading=True).strip() if is_plain else ""
            if words:
                found.append(f"**{words}**")
            else:
                found.extend(self.blocks(element, nested))
        elif tag == "a" and self.options.links != "none":
            outer, self.card = self.card, self.address(element) or self.card
            found.extend(self.blocks(element, nested))
            self.card = outer
        else:
            found.extend(self.blocks(element, nested))

    def paragraph(self, run: list[Element | str], found: list[str]) -> None:
        if not run or (len(run) == 1 and isinstance(run[0], str) and run[0].isspace()):
            return
        text = self.inline(run).strip()
        if text:
            found.append(_line_starts(self.with_card(text, run)))

    def with_card(self, text: str, run: Sequence[Element | str]) -> str:
        """Link the first words, or picture, of a card that is a link as a whole."""
        if self.card is None or "\n" in text or any(_holds(node, "a") for node in run):
            return text
        url, self.card = self.card, None
        return self.link(text, url)

    def heading(self, element: Element, found: list[str]) -> None:
        if any(isinstance(child, Element) and child.has_blocks for child in element.children):
            text = _BLANKS.sub(" ", " ".join(_flat(self, element))).strip()
        else:
            text = _BLANKS.sub(" ", self.inline(element.children, heading=True)).strip()
            text = self.with_card(text, element.children) if text else ""
        if text.strip("*_# "):
            self.headings.append(element)
            end = "\\#" if text.endswith("#") and not text.endswith("\\#") else ""
            found.append(f"{'#' * _HEADINGS[element.tag]} {text[:-1] + end if end else text}")

    def list_of(self, element: Element, nested: int, found: list[str]) -> None:
        ordered = element.tag == "ol"
        number = _number(element.get("start"), 1) if ordered else 0
        items: list[list[str]] = []
        for child in element.children:
            if not isinstance(child, Element):
                if child.strip():
                    items.append([_line_starts(escaped(_BLANKS.sub(" ", child).strip()))])
            elif child.tag == "li":
                if self.used_notes and child.get("id") in self.used_notes:
                    continue
                inner = self.blocks(child, nested + 1)
                if inner:
                    items.append(inner)
            elif child.has_blocks:
                inner = []
                self.block(child, nested + 1, inner)
                if inner and items:
                    items[-1].extend(inner)
                elif inner:
                    items.append(inner)
            else:
                text = self.inline([child]).strip()
                if text:
                    items.append([_line_starts(text)])
        if items:
            found.append(_list(items, number, ordered, found[-1] if found else ""))

    def definitions(self, element: Element, nested: int, found: list[str]) -> None:
        """Write terms as items in bold, with their descriptions behind them."""
        items: list[list[str]] = []
        for child in _terms(element):
            if child.tag == "dt":
                words = _BLANKS.sub(" ", " ".join(self.blocks(child, nested + 1))).strip()
                if words:
                    items.append([words if words.startswith(("**", "`", "[", "!")) else f"**{words}**"])
            else:
                inner = self.blocks(child, nested + 1)
                if not inner:
                    continue
                if not items:
                    items.append(inner)
                elif len(items[-1]) == 1 and len(inner) == 1 and "\n" not in inner[0] and inner[0][0] not in "#`>|-*+!":
                    term = items[-1][0]
                    sign = ":" if term.endswith(("*", ")", "`")) else "" if term.endswith(_ENDS) else ";"
                    items[-1][0] = f"{term}{sign} {inner[0]}"
                else:
                    items[-1].extend(inner)
        if items:
            found.append(_list(items, 0, False, found[-1] if found else ""))

    def code(self, element: Element, found: list[str]) -> None:
        text = _code_text(element).strip("\n").rstrip()
        if text:
            longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
            fence = "`" * max(3, longest + 1)
            found.append(f"{fence}{_language(element)}\n{text}\n{fence}")

    def table(self, rows: list[tuple[bool, list[Element]]], found: list[str]) -> None:
        grid = self.grid(rows)
        width = max((len(row) for row in grid), default=0)
        if not width:
            return
        padded = [row + [""] * (width - len(row)) for row in grid]
        used = [at for at in range(width) if any(row[at] for row in padded)]
        padded = [[row[at] for at in used] for row in padded if any(row)]
        if not padded:
            return
        if len(used) == 1:
            found.extend(_line_starts(row[0].replace("\\|", "|").replace("<br>", " ")) for row in padded)
            return
        lines = [f"| {' | '.join(row)} |" for row in padded]
        lines.insert(1, f"|{' --- |' * len(used)}")
        found.append("\n".join(lines))

    def grid(self, rows: list[tuple[bool, list[Element]]]) -> list[list[str]]:
        """Write the cells, with empty ones where a cell spans several columns or rows."""
        grid: list[list[str]] = []
        below: dict[int, int] = {}
        for _, cells in rows:
            row: list[str] = []
            for cell in cells:
                while below.get(len(row), 0) and len(row) < MOST_COLUMNS:
                    below[len(row)] -= 1
                    row.append("")
                text = self.cell(cell)
                down = min(_number(cell.get("rowspan"), 1), 200) - 1
                for at in range(min(_number(cell.get("colspan"), 1), MOST_COLUMNS)):
                    if down > 0:
                        below[len(row)] = down
                    row.append("" if at else text)
                if len(row) >= MOST_COLUMNS:
                    break
            grid.append(row)
        return grid

    def cell(self, cell: Element) -> str:
        if not any(isinstance(child, Element) and child.has_blocks for child in cell.children):
            text = self.inline(cell.children)
            return _BLANKS.sub(" ", text.replace("  \n", " <br>").strip()).replace("|", "\\|").replace(" <br>", "<br>")
        lines: list[str] = []
        for block in self.blocks(cell, MOST_NESTED - 2):
            lines += [line.strip() for line in block.split("\n") if line.strip() and not line.startswith("```")]
        return "<br>".join(line.replace("|", "\\|") for line in lines)

    # Inline

    def inline(self, nodes: Sequence[Element | str], *, heading: bool = False) -> str:
        pieces: list[str] = []
        self.write(nodes, pieces, frozenset(), heading)
        text = "".join(pieces)
        lines = [_BLANKS.sub(" ", line).strip() for line in text.split("\v")]
        return "  \n".join(line for line in lines if line)

    def write(self, nodes: Sequence[Element | str], pieces: list[str], inside: frozenset[str], heading: bool) -> None:
        for at, node in enumerate(nodes):
            if isinstance(node, str):
                pieces.append(escaped(node.replace("\v", " ")))
                continue
            tag = node.tag
            if tag == "br":
                pieces.append(" " if heading else "\v")
            elif tag == "img":
                pieces.append(self.picture(node))
            elif tag == "a" and "a" not in inside:
                self.anchor(node, pieces, inside, heading)
            elif tag in _CODE and "`" not in inside:
                pieces.append(_code_span(_BLANKS.sub(" ", "".join(texts(node))).strip()))
            elif tag == "math":
                pieces.append(_math(node))
            elif tag == "q":
                pieces.append("“")
                self.write(node.children, pieces, inside, heading)
                pieces.append("”")
            elif tag in ("sub", "sup") and _SCRIPT.fullmatch(script := node.words()) and not _has_any(node, _LINKS):
                pieces.append(f"<{tag}>{script}</{tag}>")
            elif tag in _EMPHASIS and _EMPHASIS[tag] not in inside and not heading:
                self.emphasis(node, _EMPHASIS[tag], pieces, inside, nodes[at + 1] if at + 1 < len(nodes) else "")
            else:
                self.write(node.children, pieces, inside, heading)

    def emphasis(
        self, node: Element, mark: str, pieces: list[str], inside: frozenset[str], following: Element | str
    ) -> None:
        """Write emphasis where Markdown can express it: its marks must be at the edge of a word."""
        inner: list[str] = []
        self.write(node.children, inner, inside | {mark}, False)
        text = "".join(inner)
        core = text.strip()
        if not core or "\v" in core:
            pieces.append(text)
            return
        lead, trail = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        before = next((piece[-1] for piece in reversed(pieces) if piece), " ")
        after = following[:1] if isinstance(following, str) else " " if following.tag == "br" else "x"
        opens = bool(lead) or before.isspace() or (core[0].isalnum() and before not in "*_~\\")
        closes = bool(trail) or not after or after.isspace() or (core[-1].isalnum() and after not in "*_~")
        if not opens or not closes or core[0] in "*_~" or core[-1] in "*_~\\":
            pieces.append(text)
            return
        pieces.extend((lead, mark, core, mark, trail))

    def anchor(self, node: Element, pieces: list[str], inside: frozenset[str], heading: bool) -> None:
        href = node.get("href").strip()
        if href.startswith("#") and self.note(node, href[1:], pieces):
            return
        inner: list[str] = []
        self.write(node.children, inner, inside | {"a"}, heading)
        text = "".join(inner)
        words = _BLANKS.sub(" ", text.replace("\v", " ")).strip()
        if not words or (heading and words.lower().replace("\\", "") in _PERMALINKS):
            return
        if href.startswith("#") and words.replace("\\", "") in _BACK:
            return
        url = self.address(node) if self.options.links != "none" else None
        if url is None:
            pieces.append(text)
            return
        if text[:1].isspace():
            pieces.append(" ")
        pieces.append(self.link(words, url))
        if text[-1:].isspace():
            pieces.append(" ")

    def link(self, words: str, url: str) -> str:
        if self.options.links == "references":
            return f"[{words}][{self.references.setdefault(url, len(self.references) + 1)}]"
        return f"[{words}]({url})"

    def address(self, node: Element) -> str | None:
        href = node.get("href").strip()
        if not href or len(href) > LONGEST_URL or href[:11].lower().startswith(("javascript:", "data:", "vbscript:")):
            return None
        return _safe(self.resolve(href))

    def picture(self, node: Element) -> str:
        if not self.options.images:
            return ""
        url = self.picture_address(node)
        if url is None:
            return ""
        alt = escaped(_BLANKS.sub(" ", node.get("alt")).strip())
        return f"![{alt}]({url})"

    def picture_address(self, node: Element) -> str | None:
        """Return the address of a picture; scripts that load it later keep it in another attribute."""
        if node.get("width") in ("0", "1", "2") and node.get("height") in ("0", "1", "2"):
            return None
        source = node.get("src").strip()
        for name in _LAZY if not source or source.startswith("data:") else ():
            source = node.get(name).strip().split(",")[0].split(" ")[0]
            if source and not source.startswith("data:"):
                break
        if not source or source.startswith(("data:", "javascript:", "about:")) or len(source) > LONGEST_URL:
            return None
        return _safe(self.resolve(source))

    # Footnotes

    def note(self, node: Element, target: str, pieces: list[str]) -> bool:
        """Write a reference to a footnote, if the link is one."""
        mark = node.words()
        if not target or not _NOTE.search(target) or not _NOTE_MARK.fullmatch(mark):
            return False
        note = self.notes.get(target)
        if note is None or note is node or not note.words():
            return False
        number = self.used_notes.setdefault(target, len(self.used_notes) + 1)
        pieces.append(f"[^{number}]")
        return True

    def written_notes(self) -> dict[str, str]:
        """Return the footnotes that the text refers to, by their mark."""
        found: dict[str, str] = {}
        while len(found) < len(self.used_notes):  # a note may refer to another one
            target, number = list(self.used_notes.items())[len(found)]
            words = _BLANKS.sub(" ", " ".join(_flat(self, self.notes[target]))).strip()
            found[f"^{number}"] = f"[^{number}]: {words}"
        return found

    def written_addresses(self) -> dict[str, str]:
        """Return the addresses of links that the text refers to, by their number."""
        return {str(number): f"[{number}]: {url}" for url, number in self.references.items()}


def _flat(writer: _Writer, note: Element) -> Iterable[str]:
    """Yield the inline text of a footnote's blocks."""
    run: list[Element | str] = []
    for child in note.children:
        if isinstance(child, Element) and child.has_blocks:
            yield writer.inline(run)
            run = []
            yield from _flat(writer, child)
        else:
            run.append(child)
    yield writer.inline(run)


def footnotes(body: Body) -> dict[str, Element]:
    """Return the elements to which a link inside of the page can refer as a footnote, by their id."""
    found: dict[str, Element] = {}
    for element in body.every:
        name = element.get("id") if element.attributes else ""
        if name and element.tag in _NOTE_TAGS and _NOTE.search(name):
            found.setdefault(name, element)
    return found


def _part_source(quote: Element) -> None:
    """End the line after the name of who is quoted, which forums show in a line of its own: `Ann wrote:`."""
    children = quote.children
    first = next((at for at, child in enumerate(children) if not isinstance(child, str) or child.strip()), None)
    if first is None or first + 1 >= len(children):
        return
    source, after = children[first], children[first + 1]
    is_glued = after[:1].isalnum() if isinstance(after, str) else not after.has_blocks and after.tag != "br"
    if isinstance(source, Element) and source.tag == "cite" and is_glued:
        quote.children = [*children[: first + 1], *(Element("br", {}, quote) for _ in range(2)), *children[first + 1 :]]


def _is_definitions(element: Element) -> bool:
    """Return whether a list holds nothing but terms and descriptions, in groups or not."""
    for child in element.children:
        if isinstance(child, str):
            if child.strip():
                return False
        elif child.tag not in ("dt", "dd") and not (child.tag == "div" and _is_definitions(child)):
            return False
    return True


def _terms(element: Element) -> Iterable[Element]:
    """Yield the terms and descriptions of a definition list; groups in <div> are opened."""
    for child in element.children:
        if isinstance(child, Element):
            if child.tag in ("dt", "dd"):
                yield child
            else:
                yield from _terms(child)


def _is_break(node: Element | str) -> bool:
    return isinstance(node, Element) and node.tag == "br"


def _holds(node: Element | str, tag: str) -> bool:
    return isinstance(node, Element) and _has_any(node, frozenset((tag,)))


def _has_any(element: Element, tags: frozenset[str]) -> bool:
    stack = [element]
    while stack:
        node = stack.pop()
        if node.tag in tags:
            return True
        stack.extend(child for child in node.children if isinstance(child, Element))
    return False


def escaped(text: str) -> str:
    """Return a text in which nothing reads as a mark of Markdown."""
    return _MARKS.sub(r"\\\g<0>", text) if _MARKS.search(text) else text


def _line_starts(text: str) -> str:
    """Escape what would make a heading, list, quote or rule of a line of text."""
    if "\n" not in text:
        return _LINE_START.sub(_escape_start, text, count=1)
    return "\n".join(_LINE_START.sub(_escape_start, line, count=1) for line in text.split("\n"))


def _escape_start(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"


def _safe(url: str | None) -> str | None:
    """Return an address that may be between brackets."""
    return _SAFE_URL.sub(lambda sign: f"%{ord(sign[0]):02X}", url) if url else None


def _number(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else default


def _code_span(text: str) -> str:
    if not text:
        return ""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _math(node: Element) -> str:
    text = _BLANKS.sub(" ", "".join(texts(node))).strip().replace("$", "")
    if not text:
        return ""
    return f"$${text}$$" if node.get("display") == "block" else f"${text}$"


def _code_text(element: Element) -> str:
    """Return the text of a block of code with its own line breaks; line numbers next to it are left out."""
    pieces: list[str] = []
    stack: list[Element | str] = [element]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            pieces.append(node)
        elif node.tag == "br":
            pieces.append("\n")
        elif node is element or not _GUTTER.search(node.get("class")):
            if node is not element and node.has_blocks and node.tag not in ("td", "table", "tbody"):
                if pieces and not pieces[-1].endswith("\n"):
                    pieces.append("\n")
                stack.append("\n") if node.tag in ("div", "li", "tr", "p") else None
            stack.extend(reversed(node.children))
    return "".join(pieces).replace("\r\n", "\n").replace("\v", " ")


def _language(element: Element) -> str:
    """Return the language that class names or attributes around a block of code declare."""
    inner = next((child for child in element.children if isinstance(child, Element) and child.tag == "code"), None)
    outer = element.parent
    for node in (inner, element, outer, outer.parent if outer is not None else None):
        if node is None:
            continue
        for name in ("data-lang", "data-language", "lang" if node.tag in ("pre", "code") else "data-code-language"):
            declared = node.get(name).strip()
            if declared and re.fullmatch(r"[A-Za-z0-9+#.-]{1,20}", declared):
                return declared.lower()
        found = _LANGUAGE.search(node.get("class"))
        if found and found[1].lower() not in _NO_LANGUAGE:
            return found[1].lower()
    return ""


def _data_rows(table: Element) -> list[tuple[bool, list[Element]]] | None:
    """Return the rows of a table of data, each with its cells; None for a table that arranges the page."""
    rows: list[tuple[bool, list[Element]]] = []
    stack: list[Element] = [table]
    while stack:
        element = stack.pop()
        if element.tag == "tr":
            cells = [cell for cell in element.children if isinstance(cell, Element) and cell.tag in ("td", "th")]
            rows.append((bool(cells) and all(cell.tag == "th" for cell in cells), cells))
            continue
        inner = [child for child in element.children if isinstance(child, Element)]
        stack.extend(child for child in reversed(inner) if child.tag == "tr" or child.tag in _ROW_GROUPS)
    if not rows or max(len(cells) for _, cells in rows) < 2:
        return None
    for _, cells in rows:
        for cell in cells:
            if any(isinstance(c, Element) and _has_any(c, _NOT_IN_CELLS) for c in cell.children):
                return None
            if cell.size > LONGEST_CELL // 4:
                return None
    return rows


def _list(items: list[list[str]], number: int, ordered: bool, before: str) -> str:
    """Write a list; its marks differ from those of a list just before it, which would be the same list otherwise."""
    mark = "*" if before.startswith("- ") else "-"
    dot = ")" if re.match(r"\d{1,9}\. ", before) else "."
    tight = all(len(item) == 1 or (len(item) == 2 and item[1][:2] in ("- ", "* ", "1.", "1)")) for item in items)
    written: list[str] = []
    for at, item in enumerate(items):
        lead = f"{min(number + at, 999_999_999)}{dot} " if ordered else f"{mark} "
        indent = " " * len(lead)
        text = ("\n" if tight else "\n\n").join(item)
        first, *rest = text.split("\n")
        written.append("\n".join([lead + first, *(indent + line if line else "" for line in rest)]))
    return ("\n" if tight else "\n\n").join(written)
