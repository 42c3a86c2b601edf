"""Parses Serper's JSON into records. Pure: tested on recorded answers in tests/pipelines/places/.

A row is kept even if a field is invalid: that field is dropped, and the whole row stays in the sighting's payload. Only
an answer without a list of rows is refused.
"""

import hashlib
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.errors import Evidence, Permanent
from forager.core.http import Response
from forager.core.record import trusted
from forager.core.states import ErrorType
from forager.extract.serper import facts
from forager.pipelines.places.job import Query
from forager.pipelines.places.records import SOURCE, SOURCE_VERSION, Place, Sighting

CREDIT = 1
"""The price of a query if the answer does not contain it …"""
MAP_CREDITS = 3
"""… and that of a page of a map."""
MOST_TEXT = 4_096
MOST_CATEGORY = 256
MOST_ID = 512  # a key is indexed, and PostgreSQL refuses index entries beyond 2.7 KB
MOST_INT = 2**31 - 1
_NUL = b"\\u0000"


@dataclass(frozen=True, slots=True)
class PlacesPage:
    """One page of results: its rows, and its cost if the answer contains it."""

    rows: tuple[dict[str, Any], ...]
    credits: int | None


def read_page(response: Response, price: int = CREDIT) -> PlacesPage:
    """Return the rows of an answer. Raises `Permanent`, with the body as evidence, if it is malformed; `price` is then
    counted unless the answer contains its own."""
    try:
        answer = orjson.loads(response.body)
    except ValueError as error:
        raise _nonsense(response, f"malformed JSON ({error})", price) from error
    if not isinstance(answer, dict):
        raise _nonsense(response, "JSON that is not an object", price)
    if _NUL in response.body:
        answer = _without_nul(answer)
    rows = answer.get("places")
    if rows is None:
        rows = []
    credits_ = count(answer.get("credits"))
    cost = price if credits_ is None else credits_
    if not isinstance(rows, list):
        raise _nonsense(response, "`places` that is not a list", cost)
    if not all(isinstance(row, dict) for row in rows):
        raise _nonsense(response, "a place that is not an object", cost)
    return PlacesPage(tuple(rows), credits_)


def records(page: PlacesPage, query: Query, response: Response) -> list[Place | Sighting]:
    """Return a place and a sighting per row. A row without any identity (no id, no title) is dropped."""
    kept: list[Place | Sighting] = []
    for row in page.rows:
        place = read_place(row)
        if place is not None:
            kept += (place, _sighting(place.place_uid, row, page, query, response))
    return kept


def read_place(row: Mapping[str, Any]) -> Place | None:
    get = row.get
    title, address = text(get("title")), text(get("address"))
    place_id, cid = text(get("placeId"), MOST_ID), read_cid(get("cid"))
    uid = place_id or cid or (hashed_uid(title, address) if title else None)
    if uid is None:
        return None
    return trusted(
        Place,
        {
            "place_uid": uid,
            "title": title,
            "address": address,
            "phone": text(get("phoneNumber")),
            "website": text(get("website")),
            "rating": number(get("rating"), 0.0, 5.0),
            "rating_count": count(get("ratingCount")),
            "category": text(get("category"), MOST_CATEGORY) or text(get("type"), MOST_CATEGORY),
            "latitude": number(get("latitude"), -90.0, 90.0),
            "longitude": number(get("longitude"), -180.0, 180.0),
            "cid": cid,
            "place_id": place_id,
        },
    )


def place_uid(row: Mapping[str, Any]) -> str | None:
    """Return the placeId, else the cid, else a hash of title and address: stable across pages, jobs and retries."""
    place = read_place(row)
    return place.place_uid if place else None


def hashed_uid(title: str, address: str | None) -> str:
    """Return the uid of a row without an id. Case, width and spacing do not matter; the prefix distinguishes it from
    real ids."""
    words = f"{normalised(title)}\x1f{normalised(address or '')}"
    return "h:" + hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def normalised(words: str) -> str:
    """Unicode's compatibility caseless form (folding and decomposing twice makes it stable), blanks collapsed."""
    once = unicodedata.normalize("NFKD", unicodedata.normalize("NFD", words).casefold())
    return " ".join(unicodedata.normalize("NFKD", once.casefold()).split())


def read_cid(value: object) -> str | None:
    """Read a decimal string of up to 20 digits. A whole JSON number is accepted as well; a float has already lost
    digits."""
    if type(value) is int:
        value = str(value)
    if type(value) is not str:
        return None
    digits = value.strip()
    if len(digits) <= 20 and digits.isascii() and digits.isdigit() and digits.strip("0"):
        return digits
    return None


def text(value: object, most: int = MOST_TEXT) -> str | None:
    if type(value) is not str:
        return None
    words = value.strip()
    return words if words and len(words) <= most else None


def number(value: object, least: float, most: float) -> float | None:
    if type(value) is not float and type(value) is not int:
        return None
    return float(value) if math.isfinite(value) and least <= value <= most else None


def count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_INT else None


def _sighting(uid: str, row: dict[str, Any], page: PlacesPage, query: Query, response: Response) -> Sighting:
    return trusted(
        Sighting,
        {
            "source": SOURCE,
            "source_version": SOURCE_VERSION,
            "keyword": query.keyword,
            "state": query.state,
            "zip": query.zip,
            "page": query.page,
            "position": count(row.get("position")),
            "place_uid": uid,
            "payload": row,
            "api_status": response.status,
            "api_ms": response.elapsed_ms,
            "results_count": len(page.rows),
            "credits": page.credits,
            "error": None,
        },
    )


def _nonsense(response: Response, what: str, cost: int) -> Permanent:
    # The call succeeded for Serper, so it was charged: counted as spent, that a budget may hold.
    evidence = Evidence(response.body, response.headers.get("Content-Type", "application/json"))
    message = (
        f"Serper answered with {what}. The body is kept with this dead letter; retry it if it was a passing fault."
    )
    return Permanent(message, evidence=evidence, cost=cost, facts=facts(response), error_type=ErrorType.PARSE)


def _without_nul(value: Any) -> Any:
    """Remove NUL, which PostgreSQL stores neither in text nor in JSON: such a row would make its task fail for ever."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(item) for name, item in value.items()}
    return value
