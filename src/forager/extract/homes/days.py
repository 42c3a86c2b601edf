"""A day as pages write it: `1. September 2026`, `Sep 1, 2026`, `1er septembre 2026`, `2026-09-01`. Pure.

`9/10/2026` is the ninth of October in most countries and the tenth of September in one: it is no day here.
"""

import re
from datetime import date

_MONTHS = (
    "jan ene gen sty led янв", "feb fév fev lut úno фев", "mar mär mrt bře мар", "apr avr abr kwi dub апр",
    "may mai mag mei maj kvě мая", "jun juin giu cze čer июн", "jul juil lug lip čec июл", "aug aoû ago sie srp авг",
    "sep set wrz zář сен", "oct okt ott out paź říj окт", "nov lis ноя", "dec déc dez dic gru pro дек",
)  # fmt: skip
"""How the names of the months begin, in the languages that are read."""
_ISO = re.compile(r"(?P<year>20\d\d)-(?P<month>\d{1,2})-(?P<day>\d{1,2})")
_DOTTED = re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>20\d\d)")
_SLASHED = re.compile(r"(?P<one>\d{1,2})/(?P<two>\d{1,2})/(?P<year>20\d\d)")
_DAY_FIRST = re.compile(
    r"(?P<day>\d{1,2})(?:er|st|nd|rd|th|\.|º)?\s+(?:de\s+)?(?P<name>[^\W\d]+)\.?,?\s+(?:de\s+)?(?P<year>20\d\d)"
)
_MONTH_FIRST = re.compile(r"(?P<name>[^\W\d]+)\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+(?P<year>20\d\d)")


def day_of(text: str) -> date | None:
    """The day that a text is; None if it is none, or could be two."""
    for pattern in (_ISO, _DOTTED):
        if match := pattern.fullmatch(text):
            return _date(match["year"], int(match["month"]), match["day"])
    if match := _SLASHED.fullmatch(text):
        one, two = int(match["one"]), int(match["two"])
        if (one > 12) == (two > 12) and one != two:
            return None
        return _date(match["year"], min(one, two) if one > 12 or two > 12 else one, str(max(one, two)))
    match = _DAY_FIRST.fullmatch(text) or _MONTH_FIRST.fullmatch(text)
    month = _month(match["name"].casefold()) if match else None
    return _date(match["year"], month, match["day"]) if match and month else None


def _month(name: str) -> int | None:
    found = [
        (len(start), at) for at, starts in enumerate(_MONTHS, 1) for start in starts.split() if name.startswith(start)
    ]
    return max(found)[1] if found else None


def _date(year: str, month: int, day: str) -> date | None:
    try:
        return date(int(year), month, int(day))
    except ValueError:
        return None
