"""Serper's wire format, byte for byte: requests read, rows and errors rendered. Pure.

A field that is not known is left out, never null. `cid` is text: as a JSON number its last digits would be lost.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson

from forager.sandbox.config import SerperConfig
from forager.sandbox.world import SimulatedPlace, World

PAGE_SIZES = {"places": 10, "maps": 20, "search": 10}
Row = dict[str, Any]
Render = Callable[[SimulatedPlace, int, str, SerperConfig, str, int], Row]


class SerperQuery(NamedTuple):
    """A question that can be answered. `zip` is empty when `q` does not begin with one."""

    endpoint: str
    q: str
    zip: str
    keyword: str
    page: int
    sent: Mapping[str, Any]


class SerperAnswer(NamedTuple):
    body: bytes
    places: int


class NotAnswerable(Exception):
    """The question is refused with this status and body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(body.decode())
        self.status = status
        self.body = body


def error_body(status: int, message: str) -> bytes:
    return orjson.dumps({"message": message, "statusCode": status})


def not_found(method: str, path: str) -> bytes:
    return orjson.dumps({"statusCode": 404, "message": f"Cannot {method} {path}", "error": "Not Found"})


UNAUTHORIZED = error_body(403, "Unauthorized.")
NO_KEY = error_body(403, "Unauthorized. Sign up for a free account.")
NO_CREDITS = error_body(400, "Not enough credits")
NO_QUERY = error_body(400, "Missing query parameter")
NO_LL = error_body(400, "Parameter ll (GPS location) is required for paginated maps search")
TOO_MANY = error_body(429, "Too many requests")
FAILED = error_body(500, "Internal server error")
UNAVAILABLE = b"<html><head><title>503 Service Temporarily Unavailable</title></head><body></body></html>"


def read_query(endpoint: str, sent: object) -> SerperQuery:
    """Return the question in a decoded body. A batch (an array) is refused: the sandbox answers one question at a
    time."""
    if isinstance(sent, list):
        raise NotAnswerable(400, error_body(400, "The sandbox does not answer batches: send one query per request"))
    if not isinstance(sent, dict):
        raise NotAnswerable(400, error_body(400, "The body must be a JSON object"))
    q = sent.get("q")
    if not isinstance(q, str) or not q.strip():
        raise NotAnswerable(400, NO_QUERY)
    page = sent.get("page", 1)
    if not isinstance(page, int) or isinstance(page, bool) or page < 1:
        raise NotAnswerable(400, error_body(400, "page must be a whole number from 1"))
    if endpoint == "maps" and page > 1 and not sent.get("ll"):
        raise NotAnswerable(400, NO_LL)
    zip_code, keyword = split_q(q)
    return SerperQuery(endpoint, q, zip_code, keyword, page, sent)


def read_body(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except ValueError:
        raise NotAnswerable(400, error_body(400, "The body is not valid JSON")) from None


def read_url(query: str) -> dict[str, Any]:
    """Parse the GET form, which has every body field as a parameter. Numbers and switches get their type back."""
    sent: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    sent.pop("apiKey", None)
    for name in ("page", "num"):
        if sent.get(name, "").isdigit():
            sent[name] = int(sent[name])
    if "autocorrect" in sent:
        sent["autocorrect"] = sent["autocorrect"] != "false"
    return sent


def split_q(q: str) -> tuple[str, str]:
    """`"85001 coffee shops"` to its ZIP and keyword; without a leading ZIP the whole text is the keyword."""
    match = _ZIP_FIRST.match(q)
    return (match[1], match[2].strip().lower()) if match else ("", q.strip().lower())


def answer(world: World, config: SerperConfig, query: SerperQuery, weekday: int) -> SerperAnswer:
    """Return the whole body for a good question: `searchParameters` first, `credits` last."""
    size = PAGE_SIZES[query.endpoint]
    # A text without a ZIP, and each viewport of a map, has a neighbourhood of its own.
    where = (query.keyword, str(query.sent["ll"])) if query.sent.get("ll") else (query.keyword,)
    home = query.zip or f"{int(world.chance('home', *where) * 90_000) + 10_000}"
    places = world.page(home, query.keyword, query.page, size)
    whole: dict[str, Any] = {"searchParameters": _echo(config, query)}
    if query.endpoint == "maps":
        whole["ll"] = query.sent.get("ll") or _viewport(places)
    hl = str(query.sent.get("hl", "en"))
    if query.endpoint == "search":
        whole["organic"] = _organic(config, query, len(places))
        whole["credits"] = config.price(query.endpoint)
        return SerperAnswer(orjson.dumps(whole), len(places))
    if places or _shows_empty(world, config, query):
        first = (query.page - 1) * size + 1 if config.positions_continue else 1
        render = _rows_of(world, config, query)
        whole["places"] = [
            render(place, position, _category(query.keyword, place, hl), config, hl, weekday)
            for position, place in enumerate(places, first)
        ]
    whole["credits"] = config.price(query.endpoint)
    return SerperAnswer(orjson.dumps(whole), len(places))


def _organic(config: SerperConfig, query: SerperQuery, count: int) -> list[Row]:
    """Results of a web search: pages of the site that the sandbox serves, if it does."""
    rows: list[Row] = []
    for position in range(1, count + 1):
        number = (query.page - 1) * PAGE_SIZES["search"] + position
        row: Row = {
            "title": f"{query.q}: result {number}",
            "link": f"{config.search_site}/companies/jsonld/{number}",
            "snippet": f"What page {number} has about {query.q}.",
            "position": position,
        }
        if number % 3 == 0:
            row["date"] = f"{number % 28 + 1} Mar 2026"
        rows.append(row)
    return rows


def _echo(config: SerperConfig, query: SerperQuery) -> Row:
    echo: Row = {"q": query.q}
    for name in ("gl", "hl", "location", "ll", "autocorrect", "num", "page"):
        if name in query.sent:
            echo[name] = query.sent[name]
    if config.echo_defaults:
        echo.setdefault("num", 10)
        echo.setdefault("page", query.page)
    echo["type"] = query.endpoint
    echo["engine"] = "google"
    return echo


def _shows_empty(world: World, config: SerperConfig, query: SerperQuery) -> bool:
    if config.empty_page == "mixed":
        return world.chance("empty", query.zip, query.keyword, query.page) < 0.5
    return config.empty_page == "empty"


def _rows_of(world: World, config: SerperConfig, query: SerperQuery) -> Render:
    if query.endpoint == "maps":
        return _maps_row
    if config.variant == "mixed":
        return _row_a if world.chance("variant", query.zip, query.keyword, query.page) < 0.5 else _row_b
    return _row_a if config.variant == "A" else _row_b


def _row_a(place: SimulatedPlace, position: int, _category: str, config: SerperConfig, _hl: str, _weekday: int) -> Row:
    row: Row = {
        "position": position,
        "title": place.title,
        "address": _full_address(place),
        "latitude": place.latitude,
        "longitude": place.longitude,
    }
    if place.phone:
        row["phoneNumber"] = place.phone
    if place.website:
        row["website"] = place.website
        if place.chance % 10 == 0:
            row["bookingLinks"] = [f"{place.website.split('?')[0].rstrip('/')}/book"]
    return _with_ids(row, place, config)


def _row_b(place: SimulatedPlace, position: int, category: str, config: SerperConfig, _hl: str, _weekday: int) -> Row:
    row: Row = {
        "position": position,
        "title": place.title,
        "address": place.area.city if place.chance % 7 == 0 else place.street,
        "latitude": place.latitude,
        "longitude": place.longitude,
        "thumbnailUrl": _thumbnail(place),
    }
    if place.rating_tenths:
        row["rating"] = _rating(place)
        # Thousands were seen cut at the separator: 6,703 reviews came back as 6.
        row["ratingCount"] = place.rating_count if place.rating_count < 1000 else place.rating_count // 1000
    row["category"] = category
    if place.website and place.chance % 12 == 1:
        row["website"] = place.website
    if place.chance % 9 == 2:
        row["priceLevel"] = _price(place)
    return _with_ids(row, place, config)


def _maps_row(place: SimulatedPlace, position: int, category: str, _config: SerperConfig, hl: str, weekday: int) -> Row:
    row: Row = {
        "position": position,
        "title": place.title,
        "address": f"{_full_address(place)}, United States",
        "latitude": place.latitude,
        "longitude": place.longitude,
    }
    if place.rating_tenths:
        row["rating"] = _rating(place)
        row["ratingCount"] = place.rating_count
    row["type"] = category
    row["types"] = [category, "Establishment"]
    if place.website:
        row["website"] = place.website
    if place.phone:
        row["phoneNumber"] = "+1 " + place.phone.replace("(", "").replace(") ", "-")
    row["openingHours"] = _hours(place, hl, weekday)
    row["thumbnailUrl"] = _thumbnail(place)
    if place.chance % 3 == 0:
        row["priceLevel"] = _price(place)
    if place.chance % 5 == 0:
        row["description"] = f"{category} in {place.area.city}."
    row["cid"] = place.cid
    row["fid"] = place.fid
    if place.chance % 20:
        row["placeId"] = place.place_id
    return row


def _with_ids(row: Row, place: SimulatedPlace, config: SerperConfig) -> Row:
    row["cid"] = place.cid
    if config.place_id_share and (place.chance >> 8) / 2**24 < config.place_id_share:
        row["placeId"] = place.place_id
    return row


def _full_address(place: SimulatedPlace) -> str:
    return f"{place.street}, {place.area.city}, {place.area.state} {place.zip}"


def _rating(place: SimulatedPlace) -> float | int:
    whole, tenth = divmod(place.rating_tenths, 10)
    return place.rating_tenths / 10 if tenth else whole


def _price(place: SimulatedPlace) -> str:
    return ("$1–10", "$10–20", "$20–30", "$30–50")[place.chance // 64 % 4]


def _thumbnail(place: SimulatedPlace) -> str:
    kind = "maptile" if place.chance % 6 == 0 else "p"
    return f"https://photos.example/{kind}/{place.chance:08x}=w92-h92"


def _viewport(places: list[SimulatedPlace]) -> str:
    return f"@{places[0].latitude:.7f},{places[0].longitude:.7f},14z" if places else "@39.5,-98.35,4z"


def _category(keyword: str, place: SimulatedPlace, hl: str) -> str:
    """In the requested language, as Google gives it; English for a language that the sandbox lacks."""
    word = keyword.removesuffix("s").capitalize()
    if hl in _SERVICE:
        return _SERVICE[hl].format(word)
    return (
        f"{word} {('service', 'supplier', 'center', 'company')[place.chance // 16 % 4]}" if place.chance % 2 else word
    )


def _hours(place: SimulatedPlace, hl: str, weekday: int) -> dict[str, str]:
    """The first key is the day of the request."""
    days = _DAYS.get(hl, _DAYS["en"])
    closed, always = _CLOSED.get(hl, _CLOSED["en"])
    text = always if place.chance % 11 == 0 else f"{7 + place.chance % 4} AM–{5 + place.chance % 5} PM"
    ordered = [*range(weekday, 7), *range(weekday)]
    return {days[day]: closed if day == 6 and place.chance % 2 else text for day in ordered}


_ZIP_FIRST = re.compile(r"\s*(\d{5})\s+(\S.*)", re.DOTALL)
_SERVICE = {"es": "Servicio de {}", "de": "{}-Dienst", "fr": "Service de {}"}
_CLOSED = {
    "en": ("Closed", "Open 24 hours"),
    "es": ("Cerrado", "Abierto las 24 horas"),
    "de": ("Geschlossen", "24 Stunden geöffnet"),
    "fr": ("Fermé", "Ouvert 24h/24"),
}
_DAYS = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "es": ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    "de": ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    "fr": ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
}
