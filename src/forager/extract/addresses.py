"""Postal addresses in the lines of a page, and the country that a page speaks from. Pure.

A place is taken only where the form of an address is there (a postcode in its place, a state's code): a guess from a
name alone would be wrong too often.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from forager.extract.countries import country_code, state_code
from forager.extract.document import Document
from forager.extract.locations import NormalizedLocation

_WORDS = r"[^\W\d_][\w.'’-]*(?:[ ][^\W\d_][\w.'’-]*){0,3}"
_US = re.compile(
    rf"(?P<city>{_WORDS})\s*,?\s+(?P<state>[A-Z][A-Za-z]+(?: [A-Z][a-z]+)?|[A-Z]{{2}})\.?,?\s+"
    r"(?P<code>\d{5}(?:-\d{4})?)\b"
)
_AMERICAN_CODE = re.compile(r"\b(?:\d{5}|[A-Z]\d[A-Z] ?\d[A-Z]\d)\b")
_CA = re.compile(rf"(?P<city>{_WORDS})\s*,?\s+(?P<state>[A-Z]{{2}})\.?,?\s+(?P<code>[A-Z]\d[A-Z] ?\d[A-Z]\d)\b")
_AU = re.compile(rf"(?:(?P<city>{_WORDS})\s*,?\s+)?(?P<state>NSW|VIC|QLD|TAS|ACT|WA|SA|NT)\.?,?\s+(?P<code>\d{{4}})\b")
_GB = re.compile(r"\b(?P<code>[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2})\b")
_BR = re.compile(rf"(?P<city>{_WORDS})\s*[-/,]\s*(?P<state>[A-Z]{{2}})\b")
_CEP = re.compile(r"\b\d{5}-\d{3}\b")
_CODE_FIRST = re.compile(
    r"^(?:(?P<prefix>[A-Z]{1,2})-)?(?P<code>\d{4,5}|\d{3} \d{2}|\d{2}-\d{3})[\s,]+"
    rf"(?P<city>{_WORDS}(?: [A-ZÆØÅ])?)\s*(?:[,(/].*)?$"
)
_STREET = re.compile(
    r"\d|\b(?:street|road|lane|avenue|way|drive|close|court|square|park|estate|place|house|straße|strasse|str\.|weg|platz|rue|"
    r"calle|via|rua|vej|gade|gatan)\b",
    re.IGNORECASE,
)
_STREET_END = re.compile(
    r"(?:street|st|road|rd|avenue|ave|boulevard|blvd|lane|ln|drive|dr|circle|cir|court|ct|highway|hwy|parkway|pkwy|"
    r"terrace|trail|loop|way|plaza|square|suite|ste|floor|building|bldg|common|[ns][ew]?|[ew]|north|south|east|west)\.?",
    re.IGNORECASE,
)
_CEDEX = re.compile(r"\s+cedex\b.*$", re.IGNORECASE)
_DOMAINS = {"uk": "GB", "com": None, "eu": None, "io": None, "co": None, "me": None, "tv": None, "ai": None, "ly": None}
_CODE_FIRST_COUNTRIES = frozenset(
    "DE AT CH FR ES IT PT DK NO SE FI NL BE PL CZ SK HU HR SI RO BG GR LU IS EE LV LT MX".split()
)


@dataclass(frozen=True, slots=True)
class Address:
    where: NormalizedLocation
    line: int


def addresses(document: Document, region: str | None = None) -> Iterator[Address]:
    """In page order."""
    texts = [line.text for line in document.shown]
    for at, text in enumerate(texts):
        if len(text) <= 300:
            where = _american(text) or _australian(texts, at) or _british(texts, at, region)
            where = where or _brazilian(texts, at, region) or _code_first(texts, at, region)
            if where:
                yield Address(where, at)


def region_of(document: Document) -> str | None:
    """The country of a page: by its domain, else by its addresses and the countries it names, else by its language."""
    labels = (urlsplit(document.url).hostname or "").rsplit(".", 1)
    if len(labels) == 2:
        last = labels[1].lower()
        code = _DOMAINS.get(last, last.upper() if len(last) == 2 else None)
        if code and country_code(code):
            return code
    votes: Counter[str] = Counter()
    for line in document.shown:
        if len(line.text) <= 300:
            where = _american(line.text) or _australian([line.text], 0)
            if where and where.country:
                votes[where.country] += 3
            if _CEP.search(line.text):
                votes["BR"] += 3
            if _GB.search(line.text):
                votes["GB"] += 2
            named = country_code(line.text, codes=False) or country_code(line.text.rpartition(",")[2], codes=False)
            if named and line.tag != "option":
                votes[named] += 1
    if votes:
        (code, most), *others = votes.most_common(2)
        if not others or most > others[0][1]:
            return code
        return None
    tail = (document.language or "").replace("_", "-").partition("-")[2].upper()
    return tail if len(tail) == 2 and country_code(tail) else None


def _american(text: str) -> NormalizedLocation | None:
    if not _AMERICAN_CODE.search(text):  # far cheaper than to look for a city first
        return None
    for pattern, country in ((_US, "US"), (_CA, "CA")):
        for match in pattern.finditer(text):
            state = state_code(match["state"], country)
            city = _last_name(match["city"], bool(re.search(r"\d[A-Za-z]?\s+$", text[: match.start()])))
            if state and city:
                return NormalizedLocation(city=city, state_region=state, country=country, raw=text)
    return None


def _australian(texts: Sequence[str], at: int) -> NormalizedLocation | None:
    match = _AU.search(texts[at])
    if not match:
        return None
    city = _last_name(match["city"]) if match["city"] else None
    if not city and at and not _STREET.search(texts[at - 1]) and len(texts[at - 1]) <= 40:
        city = texts[at - 1].strip(" ,")
    return NormalizedLocation(city=city, state_region=match["state"], country="AU", raw=texts[at]) if city else None


def _british(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """The first name after the last street, before the postcode: what is between them may be a county."""
    match = _GB.search(texts[at])
    if not match or (region not in (None, "GB") and " " not in match["code"]):
        return None
    before = texts[at][: match.start()].strip(" ,")
    parts = [part.strip() for part in before.split(",") if part.strip()]
    back = at
    while (
        len(parts) < 5 and back > 0 and at - back < 4 and len(texts[back - 1]) <= 60 and parts[:1] != [texts[back - 1]]
    ):
        back -= 1
        parts = [*(part.strip() for part in texts[back].split(",") if part.strip()), *parts]
        if _STREET.search(texts[back]):
            break
    streets = [index for index, part in enumerate(parts) if _STREET.search(part)]
    names = parts[streets[-1] + 1 :] if streets else []
    names = [name for name in names if not country_code(name, codes=False) and len(name) <= 40]
    return NormalizedLocation(city=names[0], country="GB", raw=", ".join([*parts, match["code"]])) if names else None


def _brazilian(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    if region != "BR" and not any(_CEP.search(text) for text in texts[max(0, at - 3) : at + 4]):
        return None
    match = _BR.search(texts[at])
    if not match or not state_code(match["state"], "BR"):
        return None
    return NormalizedLocation(city=match["city"], state_region=match["state"], country="BR", raw=texts[at])


def _code_first(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """`28022 Madrid`: in countries that write so, under a line that can be a street."""
    text = texts[at].rpartition(" – ")[2]
    pieces = [text, *(piece.strip() for piece in re.split(r"[,;]", text)[1:])]
    for piece in pieces:
        match = _CODE_FIRST.match(_CEDEX.sub("", piece))
        if not match or _STREET.search(match["city"]):
            continue
        named = _country_near(texts, at) or region
        under_street = piece is not text or (at > 0 and bool(_STREET.search(texts[at - 1])))
        if named in _CODE_FIRST_COUNTRIES and under_street:
            return NormalizedLocation(city=match["city"].strip(), country=named, raw=text)
    return None


def _country_near(texts: Sequence[str], at: int) -> str | None:
    for text in (*texts[at : at + 3], *texts[max(0, at - 5) : at]):
        code = country_code(text.rpartition(",")[2], codes=False) or country_code(text.partition(" ")[0], codes=False)
        if code:
            return code
    return None


def _last_name(words: str, after_number: bool = False) -> str | None:
    """The city in what stands before a state: what follows the street's last word, if a street is there."""
    names = words.split()
    ends = [index for index, name in enumerate(names[:-1]) if _STREET_END.fullmatch(name.strip(","))]
    if ends:
        return " ".join(names[ends[-1] + 1 :])
    return None if after_number else words
