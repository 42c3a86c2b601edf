"""Rows of the apartments actors to listings. Pure: reads the API variant and its older sibling alike.

A row that cannot be used is rejected with its reason, and the others are kept. Fields that a row leaves out, or that
hold junk, are None: the stored value stays.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from forager.core.freshness import SEEN
from forager.core.outcome import Reject
from forager.extract.countries import state_code
from forager.pipelines.listings.address import split_unit
from forager.pipelines.listings.records import Listing, ListingSource
from forager.pipelines.listings.rents import free_units, rent_range
from forager.pipelines.listings.values import day, mapping, number, numbers, objects, span, texts, whole, words

Row = Mapping[str, Any]
_ZIP: Final = re.compile(r"\d{5}")
_MAP_PICTURE: Final = re.compile(r"(^|[^a-z])map[^/a-z]*\.\w+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Found:
    """A property, and the source that shows it."""

    listing: Listing
    source: ListingSource


@dataclass(slots=True)
class Batch:
    """What was read from a part of a dataset. Every row is in one of the three."""

    found: list[Found] = field(default_factory=list)
    rejected: list[Reject] = field(default_factory=list)
    repeated: int = 0
    """Rows that show a property which an earlier row of the batch shows: two start URLs can lead to the same one."""


def read_rows(rows: Iterable[Any], market_id: str, decay_rate: float, seen_at: datetime) -> Batch:
    """Read rows of a dataset that were seen at this moment, for a market whose listings age at this rate."""
    batch = Batch()
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


def _found(row: Row, market_id: str, decay_rate: float, seen_at: datetime) -> Found:
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
    return Found(listing, shown)


def _key(row: Row) -> str | None:
    try:
        source, source_id, _ = _origin(row)
    except ValueError:
        return None
    return f"{source}:{source_id}"


def _origin(row: Row) -> tuple[str, str, str]:
    """The portal, the portal's id of the property, and the page. The id is also the last part of the page's URL."""
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
    """The address. The older actor spells the street's field wrong, names states in full and puts junk in `city`."""
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
    """The coordinates; an absent pair and (0, 0) are unknown."""
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
