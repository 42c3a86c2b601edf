"""What parsers of one site share: values by CSS selector. Pure."""

from selectolax.lexbor import LexborNode

from forager.extract.document import Document
from forager.extract.text import one_line


def text_at(document: Document, *selectors: str) -> str | None:
    """The text of the first element, of the first of these selectors, that shows some."""
    first = document.first_text(*selectors)
    return first[0] if first else None


def attribute_at(document: Document, selector: str, name: str) -> str | None:
    """An attribute of the first element that has it."""
    for node in document.tree.css(selector):
        value = node.attributes.get(name)
        if value and value.strip():
            return value.strip()
    return None


def text_of_node(node: LexborNode | None) -> str | None:
    return (one_line(node.text(separator=" ")) or None) if node is not None else None


def fact(document: Document, rows: str, *labels: str) -> str | None:
    """The value beside one of these labels in a table or list of two-part rows; labels without colon, in lower case."""
    wanted = frozenset(labels)
    for row in document.tree.css(rows)[:300]:
        cells = [each for each in row.iter() if each.tag not in ("-text", "-comment")]
        if len(cells) >= 2 and _label(cells[0]) in wanted:
            return text_of_node(cells[1])
    return None


def _label(node: LexborNode) -> str:
    return (text_of_node(node) or "").replace("\u200e", "").replace("\u200f", "").strip(" :").casefold()
