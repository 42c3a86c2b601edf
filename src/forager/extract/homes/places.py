"""Street, city and postcode of a home, from the texts that may be its address. Pure."""

import re
from dataclasses import dataclass

from forager.extract.address_forms import COUNTIES
from forager.extract.countries import country_code, country_of_state

_STREET_WORD = re.compile(
    r"\b(?:street|st|road|rd|lane|ln|avenue|ave|way|drive|dr|close|court|ct|square|sq|place"
    r"|grove|terrace|"
    r"crescent|gardens|boulevard|blvd|common|circle|parkway|pkwy|hill|row|mews|walk)\b\.?|"
    r"(?:straße|strasse|str\.|weg|platz|allee|gasse|gatan|vej)\b|\b(?:calle|avenida|rue|via|rua|paseo|ul\.)\b",
    re.IGNORECASE,
)
_STREET = re.compile(
    r"^\d+[A-Za-z]?[\s,-](?!\s*(?:bed|bath|bhk|br\b|room|sq|m2|m²|zimmer|hab|story|storey|of\b))|"
    + _STREET_WORD.pattern,
    re.IGNORECASE,
)
_POSTCODE = re.compile(
    r"\b(?:\d{5}(?:-\d{4})?|[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d|\d{4} ?[A-Z]{2}\b|\d{4}(?=$))\b"
)
_OUTWARD = re.compile(r"\s*\b[A-Z]{1,2}\d[A-Z\d]?$")
_IN = re.compile(r"^.*?\b(?:for (?:sale|rent) in|to (?:rent|let) in|en (?:venta|alquiler) en|in)\s+", re.IGNORECASE)
_LABEL = re.compile(r"^(?:address|adresse|dirección|indirizzo|location)\s*:?\s*", re.IGNORECASE)
_NEAR = re.compile(r"\s+(?:near|at|off|corner of|auf karte)\b.*$", re.IGNORECASE)
_GLUED = re.compile(
    r"\b(Street|Road|Lane|Avenue|Drive|Close|Court|Square|Place|Grove|Terrace|Crescent|Parade|Boulevard)(?=[A-Z][a-z])"
)
"""Two elements without a blank between them: `133 Bethany RoadHoppers Crossing`."""
_CODE_FIRST = re.compile(r"\d{4,5}\s+[^\W\d]")
NO_PLACE = re.compile(
    r"[@?!*=]|https?:|^(?:close|maps?|view|show|share|save|print|send|directions|search|terms|contact|karte|mapa|carte)$"
    r"|\b(?:(?:view|show|see|open)(?: it)? (?:on|in) (?:the )?map|street view|get directions|sign in|log ?in|password"
    r"|send (?:a )?message|contact (?:the |for )?\w*agent|on request|auf (?:der )?karte|ver (?:en )?(?:el )?mapa"
    r"|voir (?:sur )?la carte|e-?mail|newsletter|subscribe|terms (?:&|and)|privacy policy|agent name|please)\b",
    re.IGNORECASE,
)
"""Lines of buttons, links and forms that stand beside an address."""
_TAIL = re.compile(r"\s+-\s+.*$|\s*\[.*$|\s*\([^)]*\d{4,}.*$")


@dataclass(frozen=True, slots=True)
class Place:
    street: str | None = None
    city: str | None = None
    postcode: str | None = None


def is_street(text: str) -> bool:
    """Whether a text is a street with a number, and little else."""
    return bool(re.match(r"\d+[A-Za-z]?\s", text)) and bool(_STREET.search(text)) and len(text.split()) <= 7


def has_street_word(text: str) -> bool:
    """Whether a text has a word for a street: `10 Tall Oak Blvd`, and not `2016 Chevrolet Colorado`."""
    return bool(_STREET_WORD.search(text))


def place_of(text: str) -> Place:
    """Take an address of one line apart: `133 Bethany Road, Hoppers Crossing VIC 3029`. What is not sure is None."""
    bare = _TAIL.sub("", _LABEL.sub("", _GLUED.sub(r"\1, ", text.replace("•", ","))))
    code = _POSTCODE.search(bare)
    parts = [part.strip(" .") for part in re.split(r"[,|]", bare) if part.strip(" .")]
    streets = [at for at, part in enumerate(parts) if _STREET.search(part)]
    street = parts[streets[0]] if streets else None
    if street and len(parts) > streets[0] + 1 and re.fullmatch(r"\d+[A-Za-z]?", parts[streets[0] + 1]):
        street = f"{street}, {parts[streets[0] + 1]}"
    after = parts[(streets[0] + 1 if streets else 0) :]
    names = [name for part in after if (name := _town(part))]
    names += [name for part in after if _CODE_FIRST.match(part) and (name := _town(part))]  # beside its code, surely
    street = _NEAR.sub("", _IN.sub("", street)) if street and not re.match(r"\d{4}-\d\d", street) else None
    return Place(street, names[-1] if names else None, code[0] if code else None)


def _town(part: str) -> str | None:
    """The name of a town in a part of an address, without its state and code; None for a county or a country."""
    name = _OUTWARD.sub("", _POSTCODE.sub("", part)).strip(" ,.-")
    words = name.split()
    if len(words) > 1 and words[-1].isupper() and len(words[-1]) <= 3:
        name = " ".join(words[:-1])
    is_other = country_code(name, codes=False) or name.casefold() in COUNTIES or re.search(r"\d", name)
    if not name or is_other or (name.isupper() and len(name) <= 3) or country_of_state(name):
        return None
    return name if len(name) <= 40 else None
