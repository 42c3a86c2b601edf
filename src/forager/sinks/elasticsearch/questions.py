"""Searches as the cluster's query language states them. Pure.

A question is data, never a query string: no character of a word has a meaning of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from forager.kit.indexed import Indexed
from forager.kit.search.ranking import END, MOST_NEAR, START, WEIGHTS
from forager.kit.search.words import SHORTEST
from forager.sinks.elasticsearch.mapping import SPELLED, WORDS

Terms = Sequence[Sequence[str]]
PAGE = 5_000
"""Hits of one request; clusters refuse more than 10,000 by default."""
ANY_NUMBER = 1_000_000


def all_terms(indexed: Indexed, terms: Terms) -> dict[str, Any]:
    """Match documents that have every term, each by one of its words, in any searched field."""
    fields = [f"{name}.{WORDS}^{WEIGHTS[weight]:g}" for name, weight in indexed.searched.items()]
    return {"bool": {"must": [_any_word(words, fields) for words in terms]}}


def newest(indexed: Indexed, terms: Terms, size: int, below: int | None) -> dict[str, Any]:
    """The newest matches with their scores, from the id `below` downwards."""
    body: dict[str, Any] = {
        "query": all_terms(indexed, terms),
        "sort": [{indexed.number: "desc"}],
        "track_scores": True,
        "track_total_hits": False,
        "_source": False,
        "size": size,
    }
    return body if below is None else {**body, "search_after": [below]}


def counted(indexed: Indexed, terms: Terms, most: int) -> dict[str, Any]:
    """How many documents match, counted up to `most`."""
    return {"query": all_terms(indexed, terms), "size": 0, "track_total_hits": most}


def marks(indexed: Indexed, terms: Terms, ids: Sequence[int]) -> dict[str, Any]:
    """The texts of these records with `START` and `END` around what matched."""
    only = {"terms": {indexed.number: list(ids)}}
    return {
        "query": {"bool": {"must": [all_terms(indexed, terms)], "filter": [only]}},
        "sort": [{indexed.number: "desc"}],
        "_source": False,
        "size": len(ids),
        "highlight": {
            "number_of_fragments": 0,
            "pre_tags": [START],
            "post_tags": [END],
            "fields": {f"{name}.{WORDS}": {} for name in indexed.searched},
        },
    }


def near_words(indexed: Indexed, word: str) -> dict[str, Any]:
    """Words of the index that are one edit away from a word, by field."""
    asked: dict[str, Any] = {
        "suggest_mode": "always",
        "max_edits": 1,
        "prefix_length": 0,
        "min_word_length": SHORTEST - 1,
        "max_term_freq": ANY_NUMBER,
        "size": 2 * MOST_NEAR,
    }
    suggestions = {name: {"term": {"field": f"{name}.{SPELLED}", **asked}} for name in indexed.searched}
    return {"size": 0, "suggest": {"text": word, **suggestions}}


def suggested(answer: Mapping[str, Any]) -> list[str]:
    """The words of an answer to `near_words`, without doubles."""
    options = [each for entries in answer.get("suggest", {}).values() for entry in entries for each in entry["options"]]
    return list(dict.fromkeys(str(each["text"]) for each in options))


def _any_word(words: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    return {"bool": {"should": [{"multi_match": {"query": word, "fields": fields}} for word in words]}}
