"""Countries and states by the names that pages use. Pure; tables are made once, at the first question."""

import unicodedata
from functools import cache

import pycountry

# What pages write and the standard's own tables lack: names in the country's language, old and short forms.
_ALSO = {
    "usa": "US", "u.s.a.": "US", "u.s.": "US", "united states of america": "US", "america": "US",
    "estados unidos": "US",
    "uk": "GB", "u.k.": "GB", "great britain": "GB", "england": "GB", "scotland": "GB", "wales": "GB",
    "northern ireland": "GB", "vereinigtes königreich": "GB", "royaume-uni": "GB", "reino unido": "GB",
    "deutschland": "DE", "allemagne": "DE", "alemania": "DE", "tyskland": "DE", "österreich": "AT", "schweiz": "CH",
    "suisse": "CH", "svizzera": "CH", "españa": "ES", "espana": "ES", "spanien": "ES", "francia": "FR",
    "frankreich": "FR", "italia": "IT", "italien": "IT", "nederland": "NL", "holland": "NL", "the netherlands": "NL",
    "niederlande": "NL", "belgië": "BE", "belgique": "BE", "belgien": "BE", "danmark": "DK", "dänemark": "DK",
    "norge": "NO", "norwegen": "NO", "sverige": "SE", "schweden": "SE", "suomi": "FI", "finnland": "FI", "ísland": "IS",
    "polska": "PL", "polen": "PL", "česko": "CZ", "czech republic": "CZ", "česká republika": "CZ", "magyarország": "HU",
    "românia": "RO", "hrvatska": "HR", "srbija": "RS", "ελλάδα": "GR", "россия": "RU", "russia": "RU",
    "российская федерация": "RU", "україна": "UA", "украина": "UA", "türkiye": "TR", "turkey": "TR", "brasil": "BR",
    "brazil": "BR", "brasilien": "BR", "méxico": "MX", "mexiko": "MX", "perú": "PE", "argentinien": "AR", "中国": "CN",
    "中國": "CN", "p.r. china": "CN", "china mainland": "CN", "日本": "JP", "대한민국": "KR", "한국": "KR",
    "south korea": "KR", "korea": "KR", "taiwan": "TW", "臺灣": "TW", "台灣": "TW", "vietnam": "VN", "việt nam": "VN",
    "iran": "IR", "bolivia": "BO", "venezuela": "VE", "tanzania": "TZ", "moldova": "MD", "syria": "SY", "laos": "LA",
    "uae": "AE", "u.a.e.": "AE", "emirates": "AE", "éire": "IE", "republic of ireland": "IE", "irland": "IE",
    "luxemburg": "LU", "slovak republic": "SK", "slovensko": "SK", "slovenija": "SI", "ivory coast": "CI",
    "south africa": "ZA", "new zealand": "NZ", "neuseeland": "NZ", "australien": "AU", "kanada": "CA", "indien": "IN",
    "भारत": "IN", "الإمارات": "AE", "مصر": "EG", "ישראל": "IL",
}  # fmt: skip
_WITH_STATES = ("US", "CA", "AU", "BR")


def folded(name: str) -> str:
    """One spelling for comparing: no case, no forms of width, no dots at the ends."""
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
    """A state of the USA, Canada, Australia or Brazil by its name or its code, as its code: `CA`, `ON`, `NSW`."""
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
