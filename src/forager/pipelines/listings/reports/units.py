"""The filter for units of a building: as SQL for the store, and as a function for the report of one listing.

All conditions must hold for one unit. A building without units is compared by its own ranges. A value that a unit lacks
is the building's, if that has only one or if none of its units has one; otherwise it is unknown, and an unknown value
matches nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq, ge, le
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

Unit = Mapping[str, Any]
_FIELDS: Final = ("beds", "baths", "rent", "area")


@dataclass(frozen=True, slots=True)
class _Condition:
    """One filter: how it compares a field of a unit, and the range of a building."""

    field: str
    sign: str
    holds: Callable[[Any, Any], bool]
    of_unit: str
    """SQL over a row `u` of `listing_units`, with `{value}` for the requested value."""

    def on_building(self, building: Mapping[str, Any], value: float) -> bool:
        low, high = building[f"{self.field}_min"], building[f"{self.field}_max"]
        if self.sign == "=":
            return low is not None and high is not None and low <= value <= high
        end = low if self.sign == "<=" else high
        return end is not None and self.holds(end, value)


def _least(field: str) -> _Condition:
    return _Condition(field, ">=", ge, f"u.{field}_high >= {{value}}")


def _most(field: str) -> _Condition:
    return _Condition(field, "<=", le, f"u.{field}_low <= {{value}}")


def _exactly(field: str) -> _Condition:
    return _Condition(field, "=", eq, f"u.{field}_low <= {{value}} AND u.{field}_high >= {{value}}")


_CONDITIONS: Final[Mapping[str, _Condition]] = {
    "min_rent": _least("rent"),
    "max_rent": _most("rent"),
    "beds": _exactly("beds"),
    "baths": _exactly("baths"),
    "min_area": _least("area"),
    "max_area": _most("area"),
}


class UnitFilter(BaseModel):
    """Conditions on a unit. They hold together: a listing is found if one of its free units meets all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_rent: int | None = Field(default=None, ge=0, le=10_000_000, description="Lowest monthly rent of the unit.")
    max_rent: int | None = Field(default=None, ge=0, le=10_000_000, description="Highest monthly rent of the unit.")
    beds: float | None = Field(default=None, ge=0, le=100, description="Bedrooms of the unit; 0: a studio.")
    baths: float | None = Field(default=None, ge=0, le=100, description="Bathrooms of the unit.")
    min_area: int | None = Field(default=None, ge=0, le=10_000_000, description="Smallest area in square feet.")
    max_area: int | None = Field(default=None, ge=0, le=10_000_000, description="Largest area in square feet.")

    @property
    def given(self) -> dict[str, float]:
        """The conditions that were given, by name."""
        values = ((name, getattr(self, name)) for name in _CONDITIONS)
        return {name: value for name, value in values if value is not None}


def unit_condition(asked: UnitFilter, values: dict[str, Any]) -> str | None:
    """Return the SQL condition of the filter over a listing `w`; None for an empty filter.

    Adds the values that the SQL names. The rows of `listing_units` have what `matching_units` works out.
    """
    given = asked.given
    if not given:
        return None
    values.update(given)
    return f"EXISTS (SELECT 1 FROM listing_units u WHERE u.listing_id = w.id AND {_of_unit(asked)})"


def unit_rent(asked: UnitFilter, *, highest: bool) -> str:
    """Return the SQL of the rent that a listing `w` is sorted by: that of its matching units, else its own."""
    own, of_units = ("w.rent_max", "max(u.rent)") if highest else ("w.rent_min", "min(u.rent)")
    if not asked.given:
        return own
    matching = f"SELECT {of_units} FROM listing_units u WHERE u.listing_id = w.id AND {_of_unit(asked)}"
    return f"coalesce(({matching}), {own})"


def matching_units(asked: UnitFilter, building: Mapping[str, Any], units: Sequence[Unit]) -> list[Unit] | None:
    """Return the units that meet all conditions; None if there are no conditions. Agrees with `unit_condition`."""
    given = asked.given
    if not given:
        return None
    shown = {name for name in _FIELDS if any(unit.get(name) is not None for unit in units)}
    return [unit for unit in units if all(_meets(name, value, unit, building, shown) for name, value in given.items())]


def _meets(name: str, value: float, unit: Unit, building: Mapping[str, Any], shown: set[str]) -> bool:
    condition = _CONDITIONS[name]
    own = unit.get(condition.field)
    if own is not None:
        return condition.holds(own, value)
    low, high = building[f"{condition.field}_min"], building[f"{condition.field}_max"]
    is_known = condition.field not in shown or (low is not None and low == high)
    return is_known and condition.on_building(building, value)


def _of_unit(asked: UnitFilter) -> str:
    return " AND ".join(_CONDITIONS[name].of_unit.format(value=f":{name}") for name in asked.given)
