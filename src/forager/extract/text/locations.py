"""Locations as {city, state_region, country, raw}. Pure; a part that is not certain stays empty, `raw` has the text."""

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any

import pycountry
from pydantic import BaseModel, ConfigDict

from forager.extract.tables import any_of, by_member, table
from forager.extract.text.strings import one_line

_DATA = table("locations")

# Countries and states by the names that pages use. Pure; tables are made once, at their first use.


# Names that pages use and the standard's own tables lack: in the country's language, old and short forms.
_ALSO = by_member(_DATA["countries"])
_WITH_STATES = ("US", "CA", "AU", "BR")


def folded(name: str) -> str:
    """Return one spelling for comparing: no case, no forms of width, no dots at the ends."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("\xad", "").split()).strip(" .,;:()")


def country_code(name: str, *, codes: bool = True) -> str | None:
    """ISO 3166 alpha-2 of a country by one of its names, or by its code of two or three capital letters."""
    bare = name.strip(" .,;:()")
    if codes and bare.isascii() and bare.isupper() and bare.isalpha():
        if len(bare) == 2 and (bare in _codes() or bare in ("UK", "EU")):
            return "GB" if bare == "UK" else (None if bare == "EU" else bare)
        if len(bare) == 3 and bare in _codes():
            return _codes()[bare]
    return _names().get(folded(name))


def state_code(name: str, country: str) -> str | None:
    """Return a state of the USA, Canada, Australia or Brazil by its name or its code, as its code: `CA`, `ON`,
    `NSW`."""
    bare = name.strip(" .,;:()")
    table = _states(country)
    return bare if bare.isupper() and bare in table.values() else table.get(folded(name))


def country_of_state(name: str) -> tuple[str, str] | None:
    """Country and code of a state that is named alone; where two countries have it, the USA's."""
    for country in _WITH_STATES:
        code = state_code(name, country)
        if code:
            return country, code
    return None


@cache
def _names() -> dict[str, str]:
    names: dict[str, str] = {}
    for country in pycountry.countries:
        for attribute in ("name", "common_name", "official_name"):
            text = getattr(country, attribute, None)
            if text:
                names.setdefault(folded(text), country.alpha_2)
    return names | {folded(name): code for name, code in _ALSO.items()}


@cache
def _codes() -> dict[str, str]:
    both = {country.alpha_2: country.alpha_2 for country in pycountry.countries}
    return both | {country.alpha_3: country.alpha_2 for country in pycountry.countries}


@cache
def _states(country: str) -> dict[str, str]:
    if country not in _WITH_STATES:
        return {}
    subdivisions = pycountry.subdivisions.get(country_code=country) or []  # type: ignore[no-untyped-call]
    return {folded(one.name): one.code.partition("-")[2] for one in subdivisions if one.type != "Outlying area"}


LONGEST = 300
"""A longer text is not an address: only `raw` holds it."""
MOST_PARTS = 12

_POSTCODES = (
    r"[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}",  # United Kingdom
    r"[A-Z]\d[A-Z] ?\d[A-Z]\d",  # Canada
    r"\d{5}-\d{3,4}",  # Brazil, USA
    r"\d{4} ?[A-Z]{2}",  # Netherlands
    r"(?:[A-Z]{1,2}-)?\d{2,3}[ -]\d{2,3}",  # Sweden, Poland, Greece, Japan
    r"(?:[A-Z]{1,2}-)?\d{4,6}",
)
POSTCODE = re.compile(rf"(?:(?<=^)|(?<=[\s,-]))(?:{'|'.join(_POSTCODES)})(?=$|[\s,])")
_STREET = any_of(
    _DATA["street"],
    r"\d|\b(?:{})(?=$|\W)|^(?:rue|route|avenida|av\.|calle|carrera|via|viale|rua|praça|paseo)\s|(?:straße"
    r"|strasse|weg|gasse|platz|allee|gatan|gade|vej|laan|straat|utca)$|^شارع",
)
_REMOTE = any_of(_DATA["remote"], r"\b(?:fully |100 ?% )?(?:{})\b")
_NOWHERE = any_of(_DATA["nowhere"])
"""Words that stand where a place should, and are not one."""
_CODED = re.compile(r"(?P<country>[A-Z]{2})-(?P<state>[A-Z]{2})-(?P<city>[A-Z][\w .'-]+)")
"""`US-IL-Yorkville`, as some systems write it."""
_LOOSE = re.compile(r"\s*\(\d{1,3}\)\s*$|^\s*(?:or|oder|ou)\s+|\s+(?:or|oder|ou|and|und|et|&|\+)\s*$", re.IGNORECASE)
"""Remains around a place: the number of a French department, and the word before `remote`."""
JAPANESE = re.compile(
    r"(?P<region>東京都|北海道|京都府|大阪府|[^\W\da-zA-Z]{2,3}県)\s?(?P<city>[^\W\da-zA-Z]{1,8}?[市区町村])"
)
"""Prefecture and municipality, which Japanese addresses begin with."""
_AROUND = re.compile(
    r"^(?:greater |metropolitan )|(?: (?:bay )?(?:metropolitan )?area| metro(?:plex)?| region)$", re.IGNORECASE
)
_SEPARATORS = re.compile(r"\s*[,;|•·/\n]\s*|\s+[-–—]\s+")

_DELAWARE = frozenset(_DATA["delaware"])


class NormalizedLocation(BaseModel):
    model_config = ConfigDict(frozen=True)

    city: str | None = None
    state_region: str | None = None
    """The code where the USA, Canada and Australia have one (`CA`), else as the page writes it."""
    country: str | None = None
    """ISO 3166: `DK`."""
    raw: str | None = None
    """The text itself, untouched."""


def location_of(text: str) -> NormalizedLocation:
    """Any text has a location; how much of it is understood differs."""
    plain = one_line(text.replace("\n", ", ")) if len(text) <= LONGEST * 4 else ""
    if not plain or len(plain) > LONGEST:
        return NormalizedLocation(raw=text)
    parts = [part for part in _SEPARATORS.split(_REMOTE.sub(" ", plain)) if part.strip(" ()-–.")][:MOST_PARTS]
    if not plain.isascii() and (japanese := JAPANESE.search(plain)):
        return NormalizedLocation(city=japanese["city"], state_region=japanese["region"], country="JP", raw=text)
    coded = _CODED.fullmatch(plain)
    if coded and country_code(coded["country"]):
        return NormalizedLocation(city=coded["city"], state_region=coded["state"], country=coded["country"], raw=text)
    parts = [_LOOSE.sub("", part).strip(" ()-–:") for part in parts]
    parts = [part for part in parts if not _NOWHERE.fullmatch(part)]
    country, parts = _take_country(parts)
    state, implied, parts = _take_state(parts, country)
    city, region = _city_and_region(parts, state_known=state is not None)
    return NormalizedLocation(city=city, state_region=state or region, country=country or implied, raw=text)


def location_of_address(address: Mapping[str, Any]) -> NormalizedLocation | None:
    """Return the location in a PostalAddress of schema.org, or in a mapping with our own names."""
    words = {name: _word(address, *names) for name, names in _ADDRESS_NAMES.items()}
    raw = ", ".join(part for part in (words[name] for name in _ADDRESS_NAMES) if part)
    if not raw:
        return None
    country = country_code(words["country"] or "") or (words["country"] or None)
    state, city = words["region"] or None, words["city"]
    if not city:  # some put all of it into one property
        whole = location_of(raw)
        return NormalizedLocation(
            city=whole.city, state_region=state or whole.state_region, country=country or whole.country, raw=raw
        )
    if "," in city:
        whole = location_of(city)
        city, state, country = whole.city or city, state or whole.state_region, country or whole.country
    if state:
        known = (country, state_code(state, country)) if country else (country_of_state(state) or (None, None))
        country, state = (country or known[0]), (known[1] or state)
    return NormalizedLocation(
        city=POSTCODE.sub("", city).strip(" ,-") or None, state_region=state, country=country, raw=raw
    )


_ADDRESS_NAMES = {
    "street": ("streetAddress", "street", "AddressLine"),
    "city": ("addressLocality", "city", "locality", "City"),
    "region": ("addressRegion", "state_region", "region", "state"),
    "postcode": ("postalCode", "postcode", "postal_code", "PostalCode"),
    "country": ("addressCountry", "country", "Country"),
}


def _word(address: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = address.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, Mapping):
            value = value.get("name") or value.get("Name") or value.get("@value")
        if isinstance(value, str | int) and (words := one_line(str(value))) and len(words) <= LONGEST:
            return words
    return ""


def _take_country(parts: list[str]) -> tuple[str | None, list[str]]:
    """Read from the end. A code that may be a state of the USA is not a country if a city is before it."""
    if not parts:
        return None, parts
    if len(parts) > 2 and POSTCODE.fullmatch(parts[-1]) and country_code(parts[-2], codes=False):
        return country_code(parts[-2]), [*parts[:-2], parts[-1]]  # "…, Uzbekistan, 140100"
    last = POSTCODE.sub("", parts[-1]).strip() or parts[-1]
    code = country_code(last)
    if code and not (len(last) == 2 and len(parts) == 2 and _is_state(last, parts[0])):
        return code, parts[:-1]
    words = parts[-1].split()
    for count in (3, 2, 1):  # "98121 USA", "Seattle WA 98121 United States"
        if len(words) > count and (
            code := country_code(" ".join(words[-count:]), codes=count == 1 and len(words[-1]) == 3)
        ):
            return code, [*parts[:-1], " ".join(words[:-count])]
    return None, parts


def _is_state(code: str, city: str) -> bool:
    """ "Boston, MA" is not in Morocco; but "Berlin, DE" is not in Delaware, unless Delaware has such a town."""
    return state_code(code, "US") is not None and (code != "DE" or city.casefold() in _DELAWARE)


def _take_state(parts: list[str], country: str | None) -> tuple[str | None, str | None, list[str]]:
    for back in range(1, min(len(parts), 3) + 1):
        bare = POSTCODE.sub("", parts[-back]).strip(" ,-")
        state = _state(bare, country)
        if state and (len(parts) > 1 or not bare[:1].isupper() or bare.isupper() or country is None):
            implied, code = state
            if len(parts) - back >= 1 or len(bare) > 2:
                if len(parts) == 1 and back == 1:  # "New York" alone is more often the city
                    return None, None, parts
                return code, implied, [*parts[:-back], *parts[len(parts) - back + 1 :]]
        words = bare.split()
        if len(words) > 1 and (state := _state(words[-1], country)) and words[-1].isupper():
            number = "" if parts[-back].startswith(words[0]) else parts[-back].split()[0] + " "  # of a house
            return state[1], state[0], [*parts[:-back], number + " ".join(words[:-1])]
    return None, None, parts


def _state(name: str, country: str | None) -> tuple[str, str] | None:
    if country is None:
        return country_of_state(name)
    code = state_code(name, country)
    return (country, code) if code else None


def _city_and_region(parts: list[str], *, state_known: bool) -> tuple[str | None, str | None]:
    """Return the part next to the postcode, else after the street, else the first of two names; of more, none is
    sure."""
    coded = next((coded_part for at in range(len(parts)) if (coded_part := _beside_postcode(parts, at))), None)
    if coded is not None:
        city, at = coded
        after = [part for part in parts[at + 1 :] if _is_name(part)]
        return _named(city), after[0] if after and not state_known else None
    streets = [at for at, part in enumerate(parts) if _STREET.search(part)]
    names = [part for part in parts[streets[-1] + 1 if streets else 0 :] if _is_name(part)]
    if state_known:
        return (_named(names[-1]) if names else None), None
    if len(names) == 1:
        return _named(names[0]), None
    return (_named(names[0]), names[1]) if len(names) == 2 else (None, None)


def _beside_postcode(parts: list[str], at: int) -> tuple[str, int] | None:
    """`28022 Madrid`, `Phnom Penh 12301`, or a name and then a part that is nothing but a postcode."""
    code = POSTCODE.search(parts[at])
    if not code or (code.start() > 0 and code.end() < len(parts[at])):
        return None
    rest = (parts[at][: code.start()] + parts[at][code.end() :]).strip(" ,-")
    if len(rest) > 2:
        return (rest, at) if _is_name(rest) and not _is_house(parts, at, code) else None
    return (parts[at - 1], at) if at and _is_name(parts[at - 1]) and len(parts[at - 1]) > 2 else None


def _is_house(parts: list[str], at: int, code: re.Match[str]) -> bool:
    """`5433 Ontario Common` in front of everything else: a number of four digits may be that of a house."""
    return at == 0 and code.start() == 0 and len(parts) > 1


def _named(name: str) -> str | None:
    return " ".join(_AROUND.sub("", name).split()) or None


def _is_word(text: str) -> bool:
    return any(letter.isalpha() for letter in text)


def _is_name(part: str) -> bool:
    return _is_word(part) and not _STREET.search(part) and len(part) <= 40
