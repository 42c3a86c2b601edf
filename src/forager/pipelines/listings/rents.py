"""Rents and free units of a row: from `rent`, else from `rentals`, else from `models`. Pure.

`rent` is often absent. `rentals` are the units that are really free; `models` is a catalogue that also shows plans
without a free unit, so that a plan's own range counts only if no unit has a price.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from forager.pipelines.listings.values import Range, day, mapping, number, numbers, objects, span, texts, words

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
