"""Pay as one line: `GBP 25000-40000 per year`. Pure."""

import re
from collections.abc import Mapping
from typing import Any

from forager.extract.tables import by_member, table
from forager.extract.text.strings import one_line

_DATA = table("salaries")

LONGEST = 200
_UNITS = by_member(_DATA["units"])
"""Beginnings of the names of units, in structured data; longer ones before their own beginnings."""
_LEAST = ("minValue", "min", "minAmount", "minSalary", "salaryMin", "from")
_MOST = ("maxValue", "max", "maxAmount", "maxSalary", "salaryMax", "to")
_UNIT_NAMES = ("unitText", "period", "interval", "periodicity", "salaryPeriod", "per")
"""Names of the ends of a range and of their unit of time, in schema.org and in systems for applicants."""
_CODES = (
    "USD|EUR|GBP|CHF|DKK|SEK|NOK|PLN|CZK|HUF|RON|CAD|AUD|NZD|SGD|HKD|INR|BRL|MXN|ZAR|JPY|CNY|ILS|TRY|AED|SAR|RUB|UAH"
)
_SIGN = rf"(?:R\$|US\$|(?:CA|C|AU|A|NZ|S|HK)\$|[£€$¥₹₽₪₺]|\b(?:{_CODES})\b|\bkr\.?|\bRs\.?)"
_AFTER = rf"(?:{_SIGN}|zł|Kč|Ft|円|元|лв|руб\.?|грн|[Ee]uros?\b)"
"""The sign of a currency that may be after the number."""
_NUMBER = r"\d{1,2}(?:,\d{2})+,\d{3}|\d{1,3}(?:[.,'’\s ]\d{3})+(?!\d)(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,2})?"
"""Digits in groups, those of India among them (`5,00,000`)."""
_TO = r"(?:-|–|—|～|〜|to|bis|tot|till|til|hasta|à|a|do|až|до)"
_K = r"(?:\s?[kK]\b|万)?"
MONEY = re.compile(
    rf"{_SIGN}\s?(?:{_NUMBER}){_K}(?![\d%])(?:\s?{_TO}\s?(?:{_SIGN}\s?)?(?:{_NUMBER}){_K}(?![\d%]))?"
    rf"|(?:{_NUMBER}){_K}(?:\s?{_AFTER})?(?:\s?{_TO}\s?(?:{_NUMBER}){_K})?\s?{_AFTER}"
)
_PER = re.compile(
    r"(?:\bper|/|\ban?|\bpro|\bpar|\bal|\ball['’]|\bpor|\bza|\bp\.?)\s?"
    r"(hour|hr|h\b|day|week|month|mo\b|year|yr|annum|stunde|monat|jahr|heure|mois|anno\b|an\b|mese?|mês|año|ano\b|a\b\.?"
    r"|hora|ora\b|měsíc|mies\w*|mån\w*|md\b|år\b|rok|maand|jaar|uur|мес\w*|час\w*|год\w*)"
    r"|\b(hourly|daily|weekly|monthly|yearly|annual(?:ly)?|annu[io]|mensil[ei]|mensuel\w*|mensual\w*|anuale?s?|monatlich"
    r"|jährlich|stündlich)\b",
    re.IGNORECASE,
)
_BEFORE = _DATA["before"]
"""Words for pay that name its period, and are in front of it."""
_PERIODS = by_member(_DATA["periods"])

_STEMS = (
    ("mies", "month"), ("mån", "month"), ("мес", "month"), ("час", "hour"), ("год", "year"), ("mensu", "month"),
    ("anual", "year"),
)  # fmt: skip
"""Beginnings of words that are inflected."""


def salary_of(value: Any) -> str | None:
    """Return pay as one line, from a MonetaryAmount of schema.org, a number or a text."""
    if isinstance(value, list):
        return next((salary for one in value[:5] if (salary := salary_of(one))), None)
    if isinstance(value, Mapping):
        return _amount(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    words = one_line(str(value))
    return words if words and len(words) <= LONGEST and re.search(r"[1-9]", words) else None


def salary_in(text: str, label: str = "") -> str | None:
    """Money in a line, with its period where the line or its label names one."""
    match = MONEY.search(text[:1_000])
    if not match:
        return None
    words = one_line(match[0]).rstrip(" .,")
    after = text[match.end() : match.end() + 25]
    period = _period(after) or _period(label)
    before = text[max(0, match.start() - 6) : match.start()]
    period = period or next((name for word, name in _BEFORE.items() if word in before), None)
    return f"{words} per {period}" if period else words


def _period(text: str) -> str | None:
    match = _PER.search(text)
    if not match:
        return None
    name = (match[1] or match[2]).lower()
    return _PERIODS.get(name) or next((unit for start, unit in _STEMS if name.startswith(start)), name)


def _amount(value: Mapping[str, Any]) -> str | None:
    inner = value.get("value")
    inner = inner[0] if isinstance(inner, list) and inner else inner
    source = inner if isinstance(inner, Mapping) else value
    least, most = _first(source, _LEAST), _first(source, _MOST)
    one = _number(source.get("value")) if source is not value or not isinstance(inner, Mapping) else None
    if not (least or most or one):
        return salary_of(inner) if isinstance(inner, str) else None
    amount = f"{least}-{most}" if least and most and least != most else (least or most or one or "")
    currency = one_line(
        str(
            value.get("currency")
            or source.get("currency")
            or value.get("currencyCode")
            or value.get("currency_type")
            or ""
        )
    )[:3]
    unit = next((str(each[name]) for each in (source, value) for name in _UNIT_NAMES if each.get(name)), "")
    words = re.sub(r"^(?:per|1)[\s_-]+", "", one_line(unit).lower())
    per = next((name for mark, name in _UNITS.items() if words.startswith(mark)), "")
    return " ".join(part for part in (currency.upper(), amount, f"per {per}" if per else "") if part)


def _first(source: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((number for name in names if (number := _number(source.get(name)))), "")


def _number(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    words = one_line(str(value)).replace(",", "").replace(" ", "")
    if isinstance(value, str) and re.fullmatch(r"\d{1,3}(?:\.\d{3})+", words):  # pay has no thousandths
        words = words.replace(".", "")
    if not re.fullmatch(r"\d{1,12}(?:\.\d{1,6})?", words) or not float(words):
        return ""
    return words.rstrip("0").rstrip(".") if "." in words else words
