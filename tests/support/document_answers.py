"""All facts about a page that its markup and its first elements contain, to compare two ways of reading it."""

from forager.extract.html.document import Document
from forager.extract.html.structured_data import things
from forager.extract.products.findings import says_missing
from forager.extract.products.parsers.base import parser


def answers(document: Document) -> dict[str, object]:
    return {
        "missing": says_missing(document),
        "findings": parser.read(document),
        "things": [(thing.source, thing.types, str(thing.data), thing.depth) for thing in things(document)],
        "title": document.title,
        "headline": document.headline,
        "metas": document.metas,
        "base": document.base,
        "canonical": document.canonical,
        "language": document.language,
    }
