"""Labelled pairs of listings, made from real addresses: the same home in two spellings, and homes that only look alike.

The thresholds were not tuned on these pairs. Cases are mixed evenly; the seed decides everything else.
"""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from forager.pipelines.listings.records import Listing

_LONG = {"St": "Street", "Ave": "Avenue", "Rd": "Road", "Dr": "Drive", "Ln": "Lane", "Blvd": "Boulevard", "Ct": "Court"}
_SHORT = {long: short for short, long in _LONG.items()}
_STREET = re.compile(r"^(\d+)\s+(.+?)(?:,|$)")
_ZIP = re.compile(r"\b(\d{5})(?:-\d{4})?$")
_METRE = 1 / 111_000


class Pair(NamedTuple):
    one: Listing
    two: Listing
    same: bool
    case: str


def real_addresses(data: Path) -> list[tuple[str, str, str]]:
    """House number, street and ZIP code of the addresses of the shared data set that have all three."""
    read = json.loads((data / "us_addresses_labeled.json").read_text("utf-8"))
    found = [_of_labels(each["labels"]) for each in read["labeled"]] + [_of_text(str(each)) for each in read["us50"]]
    return sorted({each for each in found if each is not None})


def _of_labels(labels: list[list[str]]) -> tuple[str, str, str] | None:
    parts = {"AddressNumber": "", "ZipCode": ""}
    street = []
    for text, label in labels:
        if label in parts:
            parts[label] = text.strip(",")
        elif label.startswith("StreetName"):
            street.append(text.strip(","))
    number, code = parts["AddressNumber"], parts["ZipCode"][:5]
    return (number, " ".join(street), code) if number.isdigit() and street and code.isdigit() else None


def _of_text(text: str) -> tuple[str, str, str] | None:
    street, code = _STREET.match(text), _ZIP.search(text)
    return (street[1], street[2].strip(), code[1]) if street and code else None


def pairs(addresses: list[tuple[str, str, str]], number: int, seed: int) -> list[Pair]:
    """Return this number of pairs; the cases take turns."""
    dice = random.Random(seed)
    cases = [(name, case, True) for name, case in SAME.items()] + [(name, case, False) for name, case in OTHER.items()]
    made: list[Pair] = []
    while len(made) < number:
        for name, case, label in cases:
            one = _home(dice.choice(addresses), dice)
            two = case(one, dice, addresses)
            if two is not None:
                made.append(Pair(one, two, label, name))
    return made[:number]


def _home(address: tuple[str, str, str], dice: random.Random) -> Listing:
    number, street, code = address
    rent, beds = dice.randrange(900, 4_000, 5), dice.randrange(0, 4)
    return Listing(
        listing_key="a:1", market_id="m", title="A home", address=f"{number} {street}", zip=code, state="MA",
        latitude=round(dice.uniform(30, 45), 6), longitude=round(dice.uniform(-120, -70), 6),
        rent_min=rent, rent_max=rent + dice.randrange(0, 900), beds_min=beds, beds_max=beds + 1, baths_min=1,
        baths_max=2,
    )  # fmt: skip


def _again(one: Listing, dice: random.Random, **changes: Any) -> Listing:
    """The same home as another portal shows it: a little off, with a slightly other rent."""
    shift = dice.uniform(-60, 60) * _METRE
    factor = dice.uniform(0.94, 1.06)
    values: dict[str, Any] = {
        "listing_key": "b:9", "title": "Another title", "latitude": (one.latitude or 0) + shift,
        "longitude": (one.longitude or 0) - shift, "rent_min": round((one.rent_min or 0) * factor),
        "rent_max": round((one.rent_max or 0) * factor),
    }  # fmt: skip
    return one.model_copy(update={**values, **changes})


Case = Callable[[Listing, random.Random, list[tuple[str, str, str]]], Listing | None]


def _spelt(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    words = (one.address or "").split()
    other = [_LONG.get(word.strip("."), _SHORT.get(word, word)) for word in words]
    return _again(one, dice, address=" ".join(other).upper() + ".")


def _mistyped(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    number, _, street = (one.address or "").partition(" ")
    places = [at for at, letter in enumerate(street) if letter.isalpha() and at > 1]
    if len(street) < 10 or not places:
        return None
    at = dice.choice(places)
    return _again(one, dice, address=f"{number} {street[:at]}{street[at + 1 :]}")


def _without_point(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    return _again(one, dice, latitude=None, longitude=None)


def _without_zip(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    return _again(one, dice, zip=None)


def _without_rent(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    return _again(one, dice, rent_min=None, rent_max=None, zip=None)


def _next_door(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    number, _, street = (one.address or "").partition(" ")
    return _again(one, dice, address=f"{int(number) + dice.choice((2, 4, 10))} {street}")


def _other_unit(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    return _again(one, dice, unit=dice.choice(("2B", "14", "PH1")))


def _other_direction(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    number, _, street = (one.address or "").partition(" ")
    if re.search(r"\b(?:n|s|e|w|ne|nw|se|sw|north|south|east|west)\b", street, re.IGNORECASE):
        return None
    return _again(one, dice, address=f"{number} {dice.choice('NSEW')} {street}")


def _other_street(one: Listing, dice: random.Random, addresses: list[tuple[str, str, str]]) -> Listing | None:
    number, _, street = (one.address or "").partition(" ")
    other = dice.choice(addresses)[1]
    return (
        None
        if other.split()[0].lower() == street.split()[0].lower()
        else _again(one, dice, address=f"{number} {other}")
    )


def _other_town(one: Listing, dice: random.Random, _: Any) -> Listing | None:
    code = f"{(int(one.zip or 0) + dice.randrange(1, 500)) % 100_000:05}"
    return _again(one, dice, latitude=(one.latitude or 0) + dice.uniform(0.02, 2), zip=code)


SAME: dict[str, Case] = {
    "another spelling": _spelt, "a letter is missing": _mistyped, "no point": _without_point,
    "no ZIP code": _without_zip, "no rent, no ZIP code": _without_rent,
}  # fmt: skip
OTHER: dict[str, Case] = {
    "next door": _next_door, "another unit": _other_unit, "another direction": _other_direction,
    "another street": _other_street, "another town": _other_town,
}  # fmt: skip
