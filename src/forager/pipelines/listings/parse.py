"""Rows of the apartments actors to listings. Pure: reads the rows of the API variant and of its predecessor.

A row that cannot be used is rejected with its reason, and the others are kept. Missing or invalid fields of a row are
None: the stored value stays.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from forager.core.freshness import SEEN
from forager.core.outcome import Reject
from forager.extract.text.locations import state_code
from forager.pipelines.listings.records import Listing, ListingSource, split_unit

# Numbers and words out of the texts that a portal shows. Pure; a text that holds none gives None.


_LARGEST: Final = 1e9
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


class Range(NamedTuple):
    low: float
    high: float


def words(value: Any) -> str | None:
    """Return a text without runs of white space; None if it is empty or no text."""
    return (" ".join(value.split()) or None) if isinstance(value, str) else None


def number(value: Any) -> float | None:
    """Return a number from a number or a text (`"$1,460"`); None if it has none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    several = numbers(value)
    return several[0] if several else None


def numbers(value: Any) -> list[float]:
    """Return every number of a text such as "$1,100 – $1,200" or "Studio - 2 bd", where a studio is 0."""
    if not isinstance(value, str):
        return []
    text = re.sub(r"\bstudio\b", "0", value, flags=re.IGNORECASE)
    return [float(each.replace(",", "")) for each in _NUMBER.findall(text)]


def span(values: Iterable[float | None]) -> Range | None:
    """Return the lowest and the highest of the values that are known; None if none is."""
    known = [value for value in values if value is not None]
    return Range(min(known), max(known)) if known else None


def whole(value: float | None) -> int | None:
    """Return a number rounded. Raises `ValueError` if it is too large for any rent or area (and for a column)."""
    if value is not None and not abs(value) <= _LARGEST:
        raise ValueError(f"The number {value:g} is impossible.")
    return None if value is None else round(value)


def day(value: Any) -> date | None:
    """Return a day that is given as `YYYY-MM-DD`."""
    try:
        return date.fromisoformat(value[:10]) if isinstance(value, str) else None
    except ValueError:
        return None


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty one: upstream puts texts where objects belong."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; empty if the value is not a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """Return the texts of a list, each once, in their order."""
    cleaned = (words(each) for each in value) if isinstance(value, list) else ()
    return list(dict.fromkeys(each for each in cleaned if each))


# Rents and free units of a row: from `rent`, else from `rentals`, else from `models`. Pure.
#
# `rent` is often absent. `rentals` are the units that are really free; `models` is a catalogue that also shows plans
# without a free unit, so that a plan's own range counts only if no unit has a price.


Row = Mapping[str, Any]
_BEDS: Final = re.compile(r"\bstudio\b|\b(?:bed|bd)", re.IGNORECASE)
_BATHS: Final = re.compile(r"\b(?:bath|ba)", re.IGNORECASE)


def rent_range(row: Row) -> Range | None:
    """Return the lowest and highest monthly rent; None if the row shows none ("call for rent").

    Raises ValueError if the row's own range is impossible: a negative rent, or a lowest above the highest.
    """
    return _stated(mapping(row.get("rent"))) or _of_rentals(row) or _of_models(row)


def free_units(row: Row) -> list[dict[str, Any]]:
    """Return what is known of each free unit. A masked unit number (`N/A-204`) is left out: it is not on any door."""
    rentals = [
        {
            "key": words(unit.get("key")),
            "unit": _unit_number(unit.get("unitNumber")),
            "beds": number(unit.get("beds")),
            "baths": number(unit.get("baths")),
            "rent": _rent_of(unit),
            "area": number(unit.get("squareFeet")),
            "available": None if day(unit.get("availableDate")) is None else unit["availableDate"][:10],
        }
        for unit in objects(row.get("rentals"))
    ]
    return [_known(unit) for unit in rentals or map(_of_catalogue, _model_units(row)) if _known(unit)]


def _stated(rent: Row) -> Range | None:
    low, high = number(rent.get("min")), number(rent.get("max"))
    stated = span(value for value in (low, high) if value != 0)
    if stated is None:
        return None
    if stated.low < 0 or (low and high and low > high):
        raise ValueError(f"The row's rent from {low} to {high} is impossible.")
    return stated


def _of_rentals(row: Row) -> Range | None:
    return span(_positive(_rent_of(unit) for unit in objects(row.get("rentals"))))


def _of_models(row: Row) -> Range | None:
    prices = span(_positive(number(unit.get("price")) for unit in _model_units(row)))
    if prices is not None:
        return prices
    return span(_positive(each for model in objects(row.get("models")) for each in numbers(model.get("rentLabel"))))


def _model_units(row: Row) -> list[Row]:
    """Return the units of all plans, each with the `details` of its plan."""
    models = objects(row.get("models"))
    return [{**unit, "details": model.get("details")} for model in models for unit in objects(model.get("units"))]


def _of_catalogue(unit: Row) -> dict[str, Any]:
    name = (words(unit.get("type")) or "").removeprefix("Unit ")
    details = texts(unit.get("details"))
    return {
        "unit": _unit_number(name),
        "beds": _detail(details, _BEDS),
        "baths": _detail(details, _BATHS),
        "rent": number(unit.get("price")),
        "area": number(unit.get("sqft")),
    }


def _detail(details: Iterable[str], what: re.Pattern[str]) -> float | None:
    """Return the number of a plan's detail such as "2 Beds", "Studio" or "1.5 Bath"; None if none is about it."""
    return next((number(each) for each in details if what.search(each)), None)


def _rent_of(unit: Row) -> float | None:
    return number(unit.get("basePrice")) or number(unit.get("totalPrice"))


def _positive(values: Iterable[float | None]) -> Iterable[float]:
    return (value for value in values if value is not None and value > 0)


def _unit_number(value: Any) -> str | None:
    text = words(value)
    return None if text is None or text.upper().startswith("N/A") else text


def _known(unit: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in unit.items() if value is not None}


_ZIP: Final = re.compile(r"\d{5}")
_MAP_PICTURE: Final = re.compile(r"(^|[^a-z])map[^/a-z]*\.\w+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListingFound:
    """A property, and the source that shows it."""

    listing: Listing
    source: ListingSource


@dataclass(slots=True)
class DatasetBatch:
    """The result of reading a part of a dataset. Every row is in one of the three."""

    found: list[ListingFound] = field(default_factory=list)
    rejected: list[Reject] = field(default_factory=list)
    repeated: int = 0
    """Rows of a property that an earlier row of the batch shows: two start URLs can lead to the same one."""


def read_rows(rows: Iterable[Any], market_id: str, decay_rate: float, seen_at: datetime) -> DatasetBatch:
    """Read rows of a dataset that were seen at this moment, for a market whose listings age at this rate."""
    batch = DatasetBatch()
    known: set[str] = set()
    for raw in rows:
        try:
            listing = _found(mapping(raw), market_id, decay_rate, seen_at)
        except ValueError as error:
            batch.rejected.append(Reject(Listing, str(error), raw, _key(mapping(raw))))
            continue
        if listing.source.source_key in known:
            batch.repeated += 1
            continue
        known.add(listing.source.source_key)
        batch.found.append(listing)
    return batch


def _found(row: Row, market_id: str, decay_rate: float, seen_at: datetime) -> ListingFound:
    if not row:
        raise ValueError("The row is empty.")
    if row.get("demo"):
        raise ValueError("The row is a placeholder of the actor, not a listing.")
    source, source_id, url = _origin(row)
    key = f"{source}:{source_id}"
    rents = rent_range(row)
    beds, baths, area = _ranges(row)
    units = free_units(row)
    days = [each for each in (day(unit.get("available")) for unit in units) if each is not None]
    listing = Listing(
        listing_key=key,
        market_id=market_id,
        title=words(row.get("propertyName")),
        **_place(mapping(row.get("location"))),
        **_point(row.get("coordinates")),
        rent_min=whole(rents and rents.low),
        rent_max=whole(rents and rents.high),
        beds_min=beds and beds.low,
        beds_max=beds and beds.high,
        baths_min=baths and baths.low,
        baths_max=baths and baths.high,
        area_min=whole(area and area.low),
        area_max=whole(area and area.high),
        amenities=texts([each for group in objects(row.get("amenities")) for each in texts(group.get("value"))])
        or None,
        photos=_photos(row) or None,
        phone=words(mapping(row.get("contact")).get("phone")),
        available_date=min(days, default=None),
        units=units if units or isinstance(row.get("rentals"), list) else None,  # an empty list: none is free
        source_url=url,
        confidence_base=SEEN,
        confidence_updated_at=seen_at,
        decay_rate=decay_rate,
    )
    shown = ListingSource(
        source_key=key, listing_key=key, market_id=market_id, source=source, source_id=source_id, url=url
    )
    return ListingFound(listing, shown)


def _key(row: Row) -> str | None:
    try:
        source, source_id, _ = _origin(row)
    except ValueError:
        return None
    return f"{source}:{source_id}"


def _origin(row: Row) -> tuple[str, str, str]:
    """Return the portal, the portal's id of the property, and the page. The id is also the last part of the page's
    URL."""
    url = words(row.get("url"))
    try:
        parts = urlsplit(url or "")
        host = parts.hostname
    except ValueError:
        host = None
    if url is None or host is None or parts.scheme not in ("http", "https"):
        raise ValueError("The row has no URL of a page.")
    source_id = words(row.get("id")) or parts.path.rstrip("/").rpartition("/")[2]
    if not source_id:
        raise ValueError("The row has no id, and its URL does not end in one.")
    return host.removeprefix("www."), source_id, url


def _place(location: Row) -> dict[str, str | None]:
    """Return the address. The older actor spells the street's field wrong, names states in full and puts junk in
    `city`."""
    whole_address = [part.strip() for part in (words(location.get("fullAddress")) or "").split(",")]
    line = words(location.get("streetAddress")) or words(location.get("streedAddress"))
    if line is None and len(whole_address) >= 3:
        line = whole_address[0] or None
    if line is None:
        raise ValueError("The row has no street address.")
    street, unit = split_unit(line)
    name = words(location.get("state"))
    state = state_code(name, "US") if name else None
    if state is None:
        raise ValueError(f"The row's state is {name!r}: no state of the USA.")
    city = words(location.get("city"))
    if city is None or not _is_name(city):
        city = whole_address[1] if len(whole_address) >= 3 and _is_name(whole_address[1]) else None
    code = _ZIP.match(words(location.get("postalCode")) or "")
    return {"address": street, "unit": unit, "city": city, "state": state, "zip": code[0] if code else None}


def _is_name(text: str) -> bool:
    return bool(text) and not re.search(r"[\d$]", text)


def _point(raw: Any) -> dict[str, float | None]:
    """Return the coordinates; an absent pair and (0, 0) are unknown."""
    point = mapping(raw)
    latitude, longitude = number(point.get("latitude")), number(point.get("longitude"))
    if latitude is None or longitude is None or (latitude == 0 and longitude == 0):
        return {"latitude": None, "longitude": None}
    if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
        raise ValueError(f"The row's coordinates ({latitude}, {longitude}) are not on Earth.")
    return {"latitude": latitude, "longitude": longitude}


def _ranges(row: Row) -> tuple[Any, Any, Any]:
    """Beds, baths and area: the property's range texts, else what its free units have."""
    units = objects(row.get("rentals"))
    names = (("beds", "beds"), ("baths", "baths"), ("sqft", "squareFeet"))
    beds, baths, area = (
        span(numbers(row.get(name))) or span(number(unit.get(of_unit)) for unit in units) for name, of_unit in names
    )
    return beds, baths, area


def _photos(row: Row) -> list[str]:
    shown = texts(row.get("photos")) or texts(row.get("images"))
    return [url for url in shown if not _MAP_PICTURE.search(url.partition("?")[0])]
