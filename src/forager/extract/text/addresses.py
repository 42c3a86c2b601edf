"""Postal addresses in the lines of a page, and the country of a page. Pure.

A place is taken only where the form of an address is there (a postcode in its place, a state's code): a guess from a
name alone would be wrong too often.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from forager.extract.html.document import Document
from forager.extract.tables import any_of, table
from forager.extract.text.contacts import emails_in
from forager.extract.text.gazetteer import city_named, is_city_in
from forager.extract.text.locations import JAPANESE, POSTCODE, NormalizedLocation, country_code, state_code

_DATA = table("addresses")

# The forms of the last line of an address by country, and the position of the city in it. Pure.
#
# Each form is a function of the lines of a page and a place among them. A new country is one more function in `FORMS`.


_WORDS = r"[^\W\d_][\w.'’-]*(?:[ ][^\W\d_][\w.'’-]*){0,3}"
_US = re.compile(
    rf"(?P<city>{_WORDS})\s*,?\s+(?P<state>D\.?\s?C\.?|[A-Z][A-Za-z]+(?: [A-Z][a-z]+)?|[A-Z]{{2}})\.?,?\s+"
    r"(?P<code>\d{5}(?:-\d{4})?)\b"
)
_AMERICAN_CODE = re.compile(r"\b(?:\d{5}|[A-Z]\d[A-Z] ?\d[A-Z]\d)\b")
_CANADIAN_CODE = r"[A-Z]\d[A-Z] ?\d[A-Z]\d"
_CA = re.compile(
    rf"(?P<city>{_WORDS})\s*,?\s+(?P<state>[A-Z]{{2}}|[A-Z][a-z]+(?: [A-Z][a-z]+)?)\.?,?\s+(?:Canada,?\s+)?"
    rf"(?P<code>{_CANADIAN_CODE})\b"
)
_CA_CODE_FIRST = re.compile(rf"(?P<city>{_WORDS})\s*,?\s+{_CANADIAN_CODE}\s*,?\s+(?P<state>[A-Z]{{2}})\b")
_AU = re.compile(rf"(?:(?P<city>{_WORDS})\s*,?\s+)?(?P<state>NSW|VIC|QLD|TAS|ACT|WA|SA|NT)\.?,?\s+(?P<code>\d{{4}})\b")
GB_CODE = re.compile(r"\b(?P<code>(?P<area>[A-Z]{1,2})\d[A-Z\d]? ?\d[A-Z]{2})\b")
_GB_AREAS = frozenset(_DATA["gb_areas"].split())
_LONDON = frozenset(("E", "EC", "N", "NW", "SE", "SW", "W", "WC"))
COUNTIES = frozenset(_DATA["counties"])
_BR = re.compile(rf"(?P<city>{_WORDS})\s*[-/,]\s*(?P<state>[A-Z]{{2}})\b")
CEP = re.compile(r"\b\d{5}-\d{3}\b")
_NL = re.compile(rf"\b\d{{4}} ?[A-Z]{{2}}[\s,]+(?P<city>{_WORDS})")
_PL = re.compile(rf"(?:^|[\s,])\d{{2}}-\d{{3}}\s+(?P<city>{_WORDS})")
_POLISH = re.compile(r"\b(?:ul|al|pl)\.|Sp\. z|[ąęłńśźżŁŚŻ]")
_IN = re.compile(r"(?:^|[,.]\s*)(?P<city>[A-Z][a-z]+(?: [A-Z][a-z]+)?)\s*[-–,]?\s*[1-9]\d{2} ?\d{3}\b")
_IE = re.compile(rf"^(?:(?P<city>{_WORDS})\s*,\s*)?Co\.? (?P<county>[A-Z][a-z]+)\b")
_CODED = re.compile(rf"^(?P<city>{_WORDS})\s*[-,]?\s*\(?\d{{4,6}}\)?\s*[-–,]\s*(?P<country>[^\d,]{{4,40}}?)\.?$")
_CODE_FIRST = re.compile(
    r"^(?:C\.?P\.?\s*|(?P<prefix>[A-Z]{1,2})-)?(?P<code>\d{4}-\d{3}|\d{4,5}|\d{3} \d{2}|\d{2}-\d{3})[\s,]+"
    rf"(?P<city>{_WORDS}(?: [A-ZÆØÅ])?)\s*(?:[,(/].*)?$"
)
STREET = any_of(_DATA["street"], r"\d|\b(?:{})\b|\bul\.")
_STREET_END = any_of(_DATA["street_end"], r"(?:{})\.?")
_STREET_ABROAD = any_of(_DATA["street_abroad"], r"\b(?:rue|calle|avenida|via|viale|piazza|rua|ul\.)\b|\bul\.|(?:{})\b")
_NUMBERED_STREET = any_of(_DATA["street_numbered"], r"^(?=.*\d).*(?:(?<!\w)|(?<=\w{3}))(?:{})(?!\w)")
"""A street with the number of a house."""
_CITY_WORD = any_of(
    _DATA["city_word"], r"(?<!\w)(?:{})\s?(?P<city>(?-i:[^\W\d_a-z][^\W\d_]+(?:[ -][^\W\d_a-z][^\W\d_]+)?))"
)
_SENTENCE = re.compile(r"[!?:]|\b(?:19|20)\d\d\b(?=\s*$)|\w{3,}\.\s+\w{3,}")
MOST_STREET = 120
_CEDEX = re.compile(r"\s+cedex\b.*$", re.IGNORECASE)
_CODE_FIRST_COUNTRIES = frozenset(_DATA["code_first_countries"].split())
Form = Callable[[Sequence[str], int, str | None], NormalizedLocation | None]


def is_gb_code(text: str) -> bool:
    """Return whether a text has a postcode of the United Kingdom: the form, and an area that there is."""
    match = GB_CODE.search(text)
    return match is not None and match["area"] in _GB_AREAS and " " in match["code"]


def american(texts: Sequence[str], at: int, region: str | None = None) -> NormalizedLocation | None:
    """Parse an address of the USA or Canada: a city, a state and a code, also over two or three lines."""
    text = texts[at]
    if not _AMERICAN_CODE.search(text):  # far cheaper than to look for a city first
        return None
    found = _american(text)
    above = texts[at - 1] if at else ""
    if found is None and len(text) <= 40 and 2 < len(above) <= 60 and not re.search(r"\w\.\w|@", above):
        found = _american(f"{above} {text}")
    return found


def _american(text: str) -> NormalizedLocation | None:
    for match in _US.finditer(text):
        state = state_code(match["state"].replace(".", "").replace(" ", ""), "US") or state_code(match["state"], "US")
        city = _last_name(match["city"], bool(re.search(r"\d[A-Za-z]?\s+$", text[: match.start()])))
        if state and city:
            return NormalizedLocation(city=city, state_region=state, country="US", raw=text)
    for match in (*_CA.finditer(text), *_CA_CODE_FIRST.finditer(text)):
        state = state_code(match["state"], "CA")
        city = _last_name(match["city"], bool(re.search(r"\d[A-Za-z]?\s+$", text[: match.start()])))
        if state and city:
            return NormalizedLocation(city=city.strip(" ,"), state_region=state, country="CA", raw=text)
    return None


def australian(texts: Sequence[str], at: int, region: str | None = None) -> NormalizedLocation | None:
    match = _AU.search(texts[at])
    if not match:
        return None
    city = _last_name(match["city"]) if match["city"] else None
    if not city and at and not STREET.search(texts[at - 1]) and len(texts[at - 1]) <= 40:
        city = texts[at - 1].strip(" ,")
    return NormalizedLocation(city=city, state_region=match["state"], country="AU", raw=texts[at]) if city else None


def british(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """Read a British address. The city is London in London's postal areas, and otherwise the last name before the
    postcode that is not a county."""
    match = GB_CODE.search(texts[at])
    if not match or match["area"] not in _GB_AREAS or (region not in (None, "GB") and " " not in match["code"]):
        return None
    parts = _before(texts, at, match.start())
    streets = [index for index, part in enumerate(parts) if STREET.search(part)]
    names = [part.strip(" .,") for part in (parts[streets[-1] + 1 :] if streets else [])]
    names = [name for name in names if name and not country_code(name, codes=False) and len(name) <= 40]
    towns = [name for name in names if name.casefold() not in COUNTIES]
    city = "London" if match["area"] in _LONDON and parts else towns[-1] if towns else None
    raw = ", ".join([*parts, match["code"]])
    return NormalizedLocation(city=city, country="GB", raw=raw) if city else None


def _before(texts: Sequence[str], at: int, end: int) -> list[str]:
    """Return the parts of an address before its postcode, back to its street."""
    parts = [part.strip() for part in re.split(r"[,|]", texts[at][:end].strip(" ,|")) if part.strip()]
    back = at
    while (
        len(parts) < 5 and back > 0 and at - back < 4 and len(texts[back - 1]) <= 60 and parts[:1] != [texts[back - 1]]
    ):
        back -= 1
        parts = [*(part.strip() for part in texts[back].split(",") if part.strip()), *parts]
        if STREET.search(texts[back]):
            break
    return parts


def brazilian(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    if region != "BR" and not any(CEP.search(text) for text in texts[max(0, at - 3) : at + 4]):
        return None
    match = _BR.search(texts[at])
    if not match or not state_code(match["state"], "BR"):
        return None
    return NormalizedLocation(city=match["city"], state_region=match["state"], country="BR", raw=texts[at])


def dutch(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    match = _NL.search(texts[at])
    near = bool(match) and bool(STREET.search(texts[at][: match.start()] or (texts[at - 1] if at else "")))  # type: ignore[union-attr]
    if not match or not near or region not in (None, "NL", "US", "GB"):
        return None
    return NormalizedLocation(city=match["city"].strip(), country="NL", raw=texts[at])


def polish(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    match = _PL.search(texts[at])
    near = " ".join(texts[max(0, at - 2) : at + 1])
    if not match or region not in (None, "PL", "US", "GB") or not (region == "PL" or _POLISH.search(near)):
        return None
    return NormalizedLocation(city=match["city"].strip(), country="PL", raw=texts[at])


def irish(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """`Tullamore, Co. Offaly`, in one line or in two."""
    match = _IE.match(texts[at].split("Phone")[0])
    if not match or region not in (None, "IE"):
        return None
    above = texts[at - 1].strip(" ,") if at else ""
    city = match["city"] or (above if above and not STREET.search(above) and len(above) <= 30 else None)
    return NormalizedLocation(city=city, state_region=match["county"], country="IE", raw=texts[at]) if city else None


def indian(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """`Bengaluru - 560001, Karnataka`: a PIN of six digits after the city, on a page from India or next to its name."""
    match = _IN.search(texts[at])
    near = " ".join(texts[at : at + 3])
    if not match or (region != "IN" and "India" not in near) or country_code(match["city"], codes=False):
        return None
    state = next((name.strip() for name in texts[at][match.end() :].split(",") if name.strip(" .")), None)
    known = state if state and state != "India" and not re.search(r"\d", state) and len(state) <= 30 else None
    return NormalizedLocation(city=match["city"], state_region=known, country="IN", raw=texts[at])


def japanese(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """`〒150-0041 東京都渋谷区神南1-2-3`."""
    match = None if texts[at].isascii() else JAPANESE.search(texts[at])
    if not match or not re.search(r"\d", texts[at]):
        return None
    return NormalizedLocation(city=match["city"], state_region=match["region"], country="JP", raw=texts[at])


def code_before_country(texts: Sequence[str], at: int, region: str | None = None) -> NormalizedLocation | None:
    """`Sialkot (51310) - Pakistan`."""
    match = _CODED.match(texts[at])
    country = country_code(match["country"], codes=False) if match else None
    return NormalizedLocation(city=match["city"], country=country, raw=texts[at]) if match and country else None


def code_first(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """Read a line with the postal code first, such as `28022 Madrid`, in countries with this order. The line above it
    must be a possible street."""
    for text, match in _coded_first(texts[at]):
        named = _country_near(texts, at) or region
        above = texts[at - 1] if at else ""
        under_street = match.string is not text or bool(STREET.search(above))
        if under_street and (named in _CODE_FIRST_COUNTRIES or (named is None and _STREET_ABROAD.search(text + above))):
            return NormalizedLocation(city=match["city"].strip(), country=named, raw=text)
    return None


def code_first_abroad(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """Read `1051 Budapest, Vörösmarty tér 1.` on a page that names no country: the largest city of this name must be in
    one that writes the postcode before the city."""
    for text, match in _coded_first(texts[at]):
        above = texts[at - 1] if at else ""
        beside_street = (
            match.string is not text or STREET.search(above) or re.search(r",.*\d", match.string[match.end("city") :])
        )
        if beside_street and region in (None, *_CODE_FIRST_COUNTRIES) and _is_abroad(match["city"]):
            return NormalizedLocation(city=match["city"].strip(), country=region, raw=text)
    return None


def _coded_first(line: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield a line and the parts of it that begin with a postcode and a city."""
    text = line.rpartition(" – ")[2]
    for piece in (text, *(piece.strip() for piece in re.split(r"[,;]", text)[1:])):
        bare = _CEDEX.sub("", piece)
        match = _CODE_FIRST.match(bare if bare != piece else piece)
        if match and not STREET.search(match["city"]):
            yield text, match


def _is_abroad(name: str) -> bool:
    """Return whether the largest city of this name is in a country that writes the postcode before the city."""
    known = city_named(name)
    return known is not None and known.countries[0] in _CODE_FIRST_COUNTRIES


def _country_near(texts: Sequence[str], at: int) -> str | None:
    for text in (*texts[at : at + 3], *texts[max(0, at - 5) : at]):
        code = country_code(text.rpartition(",")[2], codes=False) or country_code(text.partition(" ")[0], codes=False)
        if code:
            return code
    return None


def _last_name(words: str, after_number: bool = False) -> str | None:
    """Return the city in the words before a state: those after the street's last word, if there is a street."""
    names = words.split()
    ends = [index for index, name in enumerate(names[:-1]) if _STREET_END.fullmatch(name.strip(","))]
    if ends and is_city_in(" ".join(names[ends[-1] :]), None):  # `North Vancouver`, `West Palm Beach`
        ends.pop()
    if ends:
        return " ".join(names[ends[-1] + 1 :])
    return None if after_number else words


def named_city(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """A city by its name, after its street: `Unit 4, 12 Harbour Road, Quezon City`, or in the line under the street. It
    must be a large city, or one of the page's country."""
    street, comma, name = texts[at].strip(" .,").rpartition(",")
    if not comma:
        street, name = (texts[at - 1] if at else ""), texts[at]
    name = POSTCODE.sub("", name).strip(" .,-")
    if not (
        2 < len(name) <= 40 and name[0].isupper() and len(street) <= MOST_STREET and _NUMBERED_STREET.search(street)
    ):
        return None
    if _SENTENCE.search(street):
        return None
    country = country_code(name, codes=False)
    if country and comma:  # the city is before the country
        street, comma, name = street.rpartition(",")
        name = POSTCODE.sub("", name).strip(" .,-")
    state = state_code(name, "US") if comma and country in (None, "US") and region in (None, "US") else None
    if state and "," in street:  # and before the state
        street, comma, name = street.rpartition(",")
        name = name.strip(" .,")
        country = "US"
    known = city_named(name) if comma or not country else None
    if known is None or name.casefold() in COUNTIES:
        return None
    where = country or region
    if where in known.countries or (where is None and known.is_large):
        return NormalizedLocation(city=name, state_region=state, country=where, raw=texts[at])
    return None


def slavic(texts: Sequence[str], at: int, region: str | None) -> NormalizedLocation | None:
    """`220030, г. Минск, ул. Ленина, 5`: the city after the word for one."""
    match = None if texts[at].isascii() else _CITY_WORD.search(texts[at])
    known = city_named(match["city"]) if match else None
    if not match or known is None:
        return None
    country = region if region in known.countries else known.countries[0] if len(known.countries) == 1 else None
    return NormalizedLocation(city=match["city"], country=country, raw=texts[at])


FORMS: tuple[Form, ...] = (
    american,
    australian,
    british,
    brazilian,
    dutch,
    polish,
    irish,
    indian,
    japanese,
    code_before_country,
    code_first,
)
"""In this order: the forms that are hardest to mistake first."""
NAMED: tuple[Form, ...] = (code_first_abroad, slavic, named_city)
"""Forms that the name of a city decides: for pages without an address in one of the others."""


LONGEST = 300
MOST_ABOVE = 6
LONGEST_NAME = 80
_DOMAINS = {"uk": "GB", "com": None, "eu": None, "io": None, "co": None, "me": None, "tv": None, "ai": None, "ly": None}
_LANGUAGES: dict[str, str] = _DATA["languages"]
"""Languages that are spoken in one country."""


@dataclass(frozen=True, slots=True)
class Address:
    where: NormalizedLocation
    line: int
    """The line with the city, among those of `Document.shown`."""


def addresses(document: Document, region: str | None = None, forms: Sequence[Form] = FORMS) -> Iterator[Address]:
    """In page order."""
    texts = [line.text for line in document.shown]
    for at, text in enumerate(texts):
        if len(text) <= LONGEST:
            where = next((found for form in forms if (found := form(texts, at, region))), None)
            if where:
                yield Address(where, at)


def names_above(document: Document, address: Address) -> Iterator[str]:
    """Yield lines over the street of an address, from the street up: an address begins with whose it is. Without a
    street, the line over the city."""
    texts = [line.text.strip(" ,") for line in document.shown[max(0, address.line - MOST_ABOVE) : address.line]]
    streets = [at for at, text in enumerate(texts) if STREET.search(text) and len(text) <= LONGEST_NAME]
    top = texts[: streets[0]] if streets else texts[-1:]
    for text in reversed(top):
        if len(text) <= LONGEST_NAME:
            yield text


def region_of(document: Document) -> str | None:
    """Return the country of a page: by its domain, else by its addresses, mailboxes and the countries it names, else by
    its language."""
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
