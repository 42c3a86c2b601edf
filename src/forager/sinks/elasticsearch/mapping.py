"""What an index looks like: the mapping of the documents, and the analysis that makes all three searches alike. Pure.

The fields themselves are those that the pipeline declares. Fields in which words are looked for have two more forms:
`words`, stemmed and without accents, as the searches in SQLite and PostgreSQL see a text, and `spelled`, not stemmed,
in which near words are found.
"""

import hashlib
from typing import Any

import orjson

from forager.kit.indexed import Indexed, IndexedField

WORDS, SPELLED = "words", "spelled"
NOT_A_WORD = "[^\\p{L}\\p{N}]+"
"""Java's form of what separates words (`kit.search.words`)."""
LONGEST_WORD = 255
LONGEST_KEYWORD = 8_000
"""Lucene takes keywords of at most 32,766 bytes; longer ones are stored and not indexed."""
META = "forager"
"""The entry of an index's `_meta` that is ours."""

ANALYSIS: dict[str, Any] = {
    "tokenizer": {"forager_words": {"type": "pattern", "pattern": NOT_A_WORD}},
    "filter": {
        "forager_stem": {"type": "stemmer", "language": "english"},
        "forager_length": {"type": "length", "min": 1, "max": LONGEST_WORD},
    },
    "analyzer": {
        "forager_words": {
            "type": "custom",
            "tokenizer": "forager_words",
            "filter": ["lowercase", "asciifolding", "forager_length", "forager_stem"],
        },
        "forager_spelled": {
            "type": "custom",
            "tokenizer": "forager_words",
            "filter": ["lowercase", "asciifolding", "forager_length"],
        },
    },
}
SETTINGS: dict[str, Any] = {"index": {"refresh_interval": "1s"}, "analysis": ANALYSIS}
"""The interval is stated, because an index without one is not refreshed while it is not searched."""


def properties_of(indexed: Indexed) -> dict[str, Any]:
    return {field.name: _property(field, field.name in indexed.searched) for field in indexed.fields}


def definition_of(indexed: Indexed) -> str:
    """Return a hash of everything that decides what an index contains. If it changes, the index is rebuilt."""
    whole = orjson.dumps([ANALYSIS, properties_of(indexed)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(whole).hexdigest()[:16]


def index_body(indexed: Indexed, began: int, witness: str) -> dict[str, Any]:
    """Return the body that creates an index: filled from the records as they were after the change `began`."""
    meta = {META: {"definition": definition_of(indexed), "began": began, "witness": witness}}
    return {
        "settings": SETTINGS,
        "mappings": {"dynamic": False, "_meta": meta, "properties": properties_of(indexed)},
    }


def _property(field: IndexedField, is_searched: bool) -> dict[str, Any]:
    form: dict[str, Any] = {"type": field.type}
    if field.type == "text":
        form["analyzer"] = "standard"
    if field.type == "keyword":
        form["ignore_above"] = LONGEST_KEYWORD
    if is_searched:
        form["fields"] = {
            WORDS: {"type": "text", "analyzer": "forager_words"},
            SPELLED: {"type": "text", "analyzer": "forager_spelled"},
        }
    return form
