"""Postal addresses in the lines of a page, and the country that a page speaks from. Pure.

A place is taken only where the form of an address is there (a postcode in its place, a state's code): a guess from a
name alone would be wrong too often.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from forager.extract.address_forms import CEP, FORMS, STREET, american, australian, is_gb_code
from forager.extract.countries import country_code
from forager.extract.document import Document
from forager.extract.emails import emails_in
from forager.extract.locations import NormalizedLocation

LONGEST = 300
MOST_ABOVE = 6
LONGEST_NAME = 80
_DOMAINS = {"uk": "GB", "com": None, "eu": None, "io": None, "co": None, "me": None, "tv": None, "ai": None, "ly": None}
_LANGUAGES = {
    "pl": "PL", "cs": "CZ", "da": "DK", "sv": "SE", "nb": "NO", "no": "NO", "fi": "FI", "hu": "HU", "ja": "JP",
    "ko": "KR", "nl": "NL", "tr": "TR", "it": "IT", "el": "GR", "sk": "SK", "ro": "RO", "bg": "BG", "hr": "HR",
    "uk": "UA", "he": "IL", "th": "TH", "vi": "VN", "et": "EE", "lv": "LV", "lt": "LT", "sl": "SI", "is": "IS",
}  # fmt: skip
"""Languages that are spoken in one country."""


@dataclass(frozen=True, slots=True)
class Address:
    where: NormalizedLocation
    line: int
    """The line with the city, among those of `Document.shown`."""


def addresses(document: Document, region: str | None = None) -> Iterator[Address]:
    """In page order."""
    texts = [line.text for line in document.shown]
    for at, text in enumerate(texts):
        if len(text) <= LONGEST:
            where = next((found for form in FORMS if (found := form(texts, at, region))), None)
            if where:
                yield Address(where, at)


def names_above(document: Document, address: Address) -> Iterator[str]:
    """Lines over the street of an address, from the street up: an address begins with whose it is. Without a street,
    the line over the city."""
    texts = [line.text.strip(" ,") for line in document.shown[max(0, address.line - MOST_ABOVE) : address.line]]
    streets = [at for at, text in enumerate(texts) if STREET.search(text) and len(text) <= LONGEST_NAME]
    top = texts[: streets[0]] if streets else texts[-1:]
    for text in reversed(top):
        if len(text) <= LONGEST_NAME:
            yield text


def region_of(document: Document) -> str | None:
    """The country of a page: by its domain, else by its addresses, mailboxes and the countries it names, else by its
    language."""
    own = _country_of_host(urlsplit(document.url).hostname or "")
    if own:
        return own
    votes: Counter[str] = Counter()
    for line in document.shown:
        if len(line.text) <= LONGEST:
            where = american([line.text], 0) or australian([line.text], 0)
            if where and where.country:
                votes[where.country] += 3
            if CEP.search(line.text):
                votes["BR"] += 3
            if is_gb_code(line.text):
                votes["GB"] += 2
            named = country_code(line.text, codes=False) or country_code(line.text.rpartition(",")[2], codes=False)
            if named and line.tag != "option":
                votes[named] += 1
    for domain in {mail.partition("@")[2] for mail in emails_in(document.text)}:
        if country := _country_of_host(domain):
            votes[country] += 3
    if votes:
        (code, most), *others = votes.most_common(2)
        return code if not others or most > others[0][1] else None
    return _country_of_language((document.language or "").replace("_", "-"))


def _country_of_host(host: str) -> str | None:
    last = host.rpartition(".")[2].lower()
    code = _DOMAINS.get(last, last.upper() if len(last) == 2 else None)
    return code if code and country_code(code) else None


def _country_of_language(language: str) -> str | None:
    name, _, tail = language.partition("-")
    tail = tail.upper()
    if len(tail) == 2 and country_code(tail):
        return tail
    return _LANGUAGES.get(name.lower())
