"""Words and numbers that pages of homes use, in the languages that are read. A new language is a few words here."""

import re

from forager.extract.tables import any_of, spoken, table

_DATA = table("listings")

_COUNTED = {"studio": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_NUMBER = r"(?<![\d.,/-])(?P<number>\d{1,2}(?:[.,]\d)?|one|two|three|four|five|six)"
_BED_WORDS = "|".join(_DATA["beds"])
_BATH_WORDS = "|".join(_DATA["baths"])
BEDS = re.compile(rf"{_NUMBER}\s*-?\s*(?:{_BED_WORDS})", re.IGNORECASE)
BATHS = re.compile(rf"{_NUMBER}\s*-?\s*(?:{_BATH_WORDS})", re.IGNORECASE)
BEDS_AFTER = re.compile(
    rf"(?:(?:bedrooms?|beds|schlafzimmer)\s*:?|(?<!\w)(?:{_BED_WORDS})\s*:)\s*(?P<number>\d{{1,2}})\b", re.IGNORECASE
)
BATHS_AFTER = re.compile(
    rf"(?:(?:bathrooms?|baths|badezimmer)\s*:?|(?<!\w)(?:{_BATH_WORDS})\s*:)\s*(?P<number>\d{{1,2}}(?:[.,]\d)?)\b",
    re.IGNORECASE,
)
AREA = re.compile(
    r"(?<![\d.,/])(?P<number>\d{1,3}(?:[.,\s]\d{3})+(?:[.,]\d{1,2})?|\d{1,6}(?:[.,]\d{1,2})?)\s?"
    r"(?P<unit>sq\.?\s?ft\b|sqft\b|ft2\b|ft²|square feet|m²|㎡|m2\b|mq\b|qm\b|quadratmeter|sq\.?\s?m\b)",
    re.IGNORECASE,
)
BARE_NUMBER = re.compile(r"\d{1,3}(?:[.,\s]\d{3})+|\d{1,6}(?:[.,]\d{1,2})?")
LABELLED_AREA = any_of(
    (*_DATA["labelled_area"], *spoken("area")), r"(?:approx\.?\s*)?(?:{})\s*:?\s*(?P<number>\d[\d.,]{1,8})"
)
LIVING_AREA = any_of(_DATA["living_area"], r"(?:{})\b.{0,20}\d")
"""An area with a label that only homes have."""
AREA_LABEL = any_of((*_DATA["labelled_area"], *_DATA["living_area"], *spoken("area")), r"(?:{})\W{0,3}(?:ca\W{0,3})?")
"""A line that labels the area in the line below it."""
_ROOM_WORDS = "|".join((*_DATA["rooms"], *spoken("rooms")))
ROOMS = re.compile(
    rf"(?:(?:anzahl |number of )?(?:{_ROOM_WORDS}|room|zi\.)\s*:?\s*\d{{1,2}}(?:[.,]5)?"
    rf"|\d{{1,2}}(?:[.,]5)?[\s-]?(?:{_ROOM_WORDS}))",
    re.IGNORECASE,
)
"""A number of rooms, next to its label."""
DWELLING = any_of(_DATA["dwelling"], r"\b(?:{})\b|\b[a-zäöü-]*(?:wohnung|familienhaus|reihenhaus|doppelhaushälfte)\b")
"""Kinds of homes in titles."""
NOT_A_HOME = any_of(_DATA["not_a_listing"], r"^\W*(?:{})")
"""Headlines of pages that firms have, estate agents among them: the address there is their own."""
MATTERS_OF_HOMES = tuple(any_of(words, r"\b(?:{})\b") for words in _DATA["matters"].values())
"""Matters of pages of homes. Furniture shops write about bedrooms, and every firm about leases: one is not
enough."""
OTHER_AREA = any_of(_DATA["other_area"], r"\b(?:{})\b")
"""Words next to an area that is not the home's."""
OTHER_MONEY = any_of(_DATA["other_money"], r"/\s?(?:sq|m²|m2|ft)|per sq|eur/m|€/m|\b(?:{})\b")
"""Words next to an amount that is not the price."""
PER_AREA = re.compile(
    r"[(,;–-]?\s{0,3}(?:soit|ou|or|oder|i\.e\.|=|≈|ca\.?)?\s{0,3}"
    r"(?:[$€£]\s?\d[\d\s.,]{0,20}|\d[\d\s.,]{0,20}\s?(?:[€$£]|EUR|zł|Kč|kr))\s?"
    r"(?:/|per|pro|par|al|por)\s?(?:m²|m2|mq|qm|sq\.?\s?(?:ft|m)|ft²).*",
    re.IGNORECASE,
)
"""A price per area, and what follows it in the line: `, soit 4 187 €/m²`."""
HOME_PRICE = any_of(_DATA["listing_price"], r"^(?:{})\b|^(?:賃料|家賃|販売価格)")
"""Labels of prices that shops do not use."""
PRICE_LABEL = re.compile(
    HOME_PRICE.pattern
    + r"|^(?:(?:monthly |asking |guide |starting |base )*price|precio|prix|prezzo|prijs|cena|preço|pris|preis)\b",
    re.IGNORECASE,
)
NO_PRICE = any_of(_DATA["no_price"], r"\b(?:{})\b")
RENT = any_of((*_DATA["rent"], *spoken("rent")), r"\b(?:{})\b|/(?:rent|to-rent|mieten)\b")
SALE = any_of((*_DATA["sale"], *spoken("sale")), r"\b(?:{})\b|/(?:sale|for-sale|buy)\b")
PERIODS = (
    ("week", re.compile(r"\b(?:pw|p\.w\.|per week|weekly)\b|/\s?w(?:ee)?k", re.IGNORECASE)),
    (
        "month",
        re.compile(
            r"\b(?:pcm|per (?:calendar )?month|monthly|monat)\b|/\s?mo(?:nth)?\b|al mese?|/mes|par mois|/\s?mois"
            r"|(?:por|ao|/)\s?mês|per maand|/\s?mies|miesięcznie|/\s?mån|月",
            re.IGNORECASE,
        ),
    ),
)
AVAILABLE = any_of(
    _DATA["available"],
    r"\b(?:{})\b[^\d]{0,25}?(?P<date>\d{1,2}[./]\d{1,2}[./]20\d\d|20\d\d-\d\d-\d\d|\d{1,2}(?:er|st|nd|rd|th"
    r"|\.)? (?:de )?\w{3,10}\.?,? (?:de )?20\d\d|\w{3,10}\.? \d{1,2}(?:st|nd|rd|th)?,? 20\d\d)",
)
ENDS = any_of(_DATA["others_follow"], r"^(?:{})\b")
"""A line after which other homes follow."""
LIST_TITLE = any_of(_DATA["list_title"], r"^(?:[\d.,]+\s)?(?:{})\b(?!(?>.*?\d{3}).*(?:road|street|drive|ave))")

_TIMES = tuple(
    (re.compile(pattern, re.IGNORECASE), factor)
    for pattern, factor in (
        (r"\s*(?:lacs?|lakhs?)\b", 100_000),
        (r"\s*(?:cr|crores?)\b", 10_000_000),
        (r"\s*万", 10_000),
        (r"\s*(?:mio|mln|million)\b", 1_000_000),
        (r"m(?![\w.²])", 1_000_000),
        (r"k(?![\w.])", 1_000),
    )
)


def number_of(match: re.Match[str]) -> str:
    """Return the number of a match as plain text: `2,5` is 2.5, `two` is 2."""
    words = match["number"].casefold()
    return _COUNTED.get(words, words.replace(",", "."))


def times(after: str) -> int:
    """Return the factor in the word after a number: `85 Lac`, `1.25 Cr`, `£1.2m`, `12.5万円`; else 1."""
    return next((factor for pattern, factor in _TIMES if pattern.match(after)), 1)
