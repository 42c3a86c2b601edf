"""Names of organisations in text: who holds the copyright, what carries a legal form. Pure."""

import re
from collections.abc import Iterable, Iterator

from forager.extract.countries import country_code, country_of_state
from forager.extract.document import Document, Line

LONGEST = 80
MOST_FORMS = 3
"""Legal forms behind one another, as in `Meyer GmbH & Co. KG`: a text may be made of endlessly many."""
_LEGAL = (
    r"inc|incorporated|llc|l\.l\.c|ltd|limited|plc|corp|corporation|co|company|gmbh|ag|kg|ug|e\.v|se|s\.?a|s\.?a\.?s|"
    r"s\.?a\.?r\.?l|s\.?r\.?l|s\.?p\.?a|s\.?l|s\.?l\.?u|lda|ltda|a/s|aps|a\.s|as|oy|oyj|ab|b\.?v|n\.?v|pty\.? ltd|"
    r"pvt\.? ltd|sp\. z o\.o|spol\. s r\.o|s\.r\.o|kft|zrt|d\.o\.o|ооо|ао|株式会社"
)
LEGAL_FORM = re.compile(rf"(?:,|\s)\s*(?:{_LEGAL})\.?(?=$|[\s,;.)|])", re.IGNORECASE)
# Short forms that are words elsewhere count in capitals only.
_SURE_LEGAL = re.compile(
    r"(?:,|\s)\s*(?:Inc|LLC|Ltd|Limited|PLC|plc|Corp|Corporation|GmbH|AG|KG|S\.A\.?|SAS|S\.?A\.?R\.?L\.?|S\.r\.l\.?|"
    r"S\.p\.A\.?|S\.L\.?|Ltda|LTDA|Lda|A/S|ApS|Oyj?|AB|B\.?V\.?|N\.V\.?|Pty\.? Ltd|ООО)\.?$"
)
_COPYRIGHT = re.compile(
    r"(?:©|\(c\)|&copy;|copyright)"
    r"(?:\s*(?:©|\(c\)|copyright|by|,|(?:19|20)\d\d(?:\s*[-–—/]\s*(?:(?:19|20)\d\d|\d\d|present))?))*"
    r"[\s,.:|–-]*(?P<name>[^|•·©\n]{2,120})",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\s*(?:[|•·]|\ball rights\b|\balle rechte\b|\btous droits\b|\btodos (?:los|os)\b|\btutti i\b|\bpowered by\b"
    r"|\bdesign(?:ed)?\b|\bweb ?site\b|\bsite by\b|\bprivacy\b|\bterms\b|\bregistered\b|\bis a\b|\s-\s|\. ).*$",
    re.IGNORECASE,
)
_YEAR = re.compile(r"[\s,.-]*\b(?:19|20)\d\d\b[\s,.]*")
_GENERIC = re.compile(
    r"^(?:home(?: ?page)?|welcome|contact(?: (?:us|usa|info\w*|form|details|page))?|contacting .*|about(?: us)?|"
    r"kontakt|impressum|contacto?|contato|contatti|index|site ?map|mapa (?:serwisu|strony|witryny|del sitio|do site)|"
    r"plan du site|seitenübersicht|opening hours|öffnungszeiten|job details|apply now|mailing address|"
    r"customer (?:service|support|care).*|(?:get|how to get) .*|directions.*|"
    r"start(?:seite)?|accueil|inicio|untitled.*|locations?|our offices?|offices|news|blog|login|sign in|careers?|jobs?|"
    r"(?:the )?(?:company|copyright|site|website|author|owner|all rights reserved).*|global (?:offices|locations).*|"
    r"(?:us|uk|worldwide) (?:offices|sites|locations).*)$",
    re.IGNORECASE,
)
_WELCOME = re.compile(
    r"^(?:welcome to|(?:the )?official (?:web ?)?(?:site|page|homepage) of|home ?page of|willkommen bei|"
    r"bienvenue (?:à|chez))\s*(?:the )?(?=\w)",
    re.IGNORECASE,
)
_BEFORE_SIGN = re.compile(r"^(?P<name>[^|•·©\n]{3,80}?)\s*(?:©|\(c\))\s*(?:[|•·]|(?:19|20)\d\d|$)", re.IGNORECASE)
"""`Bimbo Bakeries © | 255 Business Center Dr`: the sign after the name."""
_FORM_FIRST = re.compile(r"^(?:ООО|ЗАО|ОАО|ПАО|АО|ИП|ТОВ|PT\.?|CV\.?)\s")
_STREETS = re.compile(
    r"^\d+[A-Za-z]?\s.*\b(?:st|street|rd|road|ave|avenue|dr|drive|blvd|lane|ln|way|court|suite)\b", re.IGNORECASE
)
TITLE_PARTS = re.compile(r"\s+[-–—|:·•»«]+\s+|\s*[|»«•]\s*|:\s+")


def copyright_owners(document: Document) -> Iterator[str]:
    """Who a page's copyright lines name, from its end, where they stand."""
    for line in reversed(document.lines[-400:]):
        before = _BEFORE_SIGN.match(line.text) if len(line.text) <= 400 else None
        if before and (name := tidy(_YEAR.sub(" ", before["name"]))):
            yield name
            continue
        match = _COPYRIGHT.search(line.text) if len(line.text) <= 400 else None
        if match:
            owner = _ENDS.sub("", match["name"])
            year = _YEAR.search(owner)
            owner = owner[: year.start()] if year and year.start() > 2 else owner
            owner = owner.partition(",")[0] if _FORM_FIRST.match(owner) else owner
            form = LEGAL_FORM.search(owner)  # what follows it is another matter
            name = tidy(_YEAR.sub(" ", owner[: form.end()] if form else owner))
            if name:
                yield name


def legal_names(lines: Iterable[Line]) -> Iterator[str]:
    """Lines that are nothing but a name with a legal form: `Fincar Pty Ltd`."""
    for line in lines:
        if len(line.text) > LONGEST or _COPYRIGHT.search(line.text):
            continue
        name = tidy(line.text)
        if name and _SURE_LEGAL.search(line.text.strip(" .,")) and len(name.split()) <= 8:
            yield name


def title_parts(title: str) -> list[str]:
    """The parts of a page's title that can be names; what is in quotes stays together."""
    plain = re.sub(r"«([^«»]{2,60})»", r"\1", title)
    return [part for part in (tidy(piece) for piece in TITLE_PARTS.split(plain)) if part]


def tidy(name: str) -> str | None:
    """A name without the signs around it; None if no name is left."""
    name = " ".join(re.sub(r"[®™©]", " ", name).split()).strip(" -–—|•·,:;»«*\"'")
    name = _WELCOME.sub("", name)
    if not 2 <= len(name) <= LONGEST or not any(letter.isalpha() for letter in name) or _GENERIC.match(name):
        return None
    return None if _STREETS.match(name) else _without_place(name)


def _without_place(name: str) -> str:
    """`City of Dallas, Texas` is City of Dallas; what is in brackets after a name is a place too."""
    name = re.sub(r"\s*\([^()]*\d{4,}[^()]*\)$", "", name)
    start, comma, end = name.rpartition(",")
    place = end.strip(" .")
    is_place = bool(country_of_state(place)) or bool(country_code(place, codes=False))
    return start.strip() if comma and is_place and len(start) > 2 else name


def bare(name: str) -> str:
    """For comparing: no legal form, no case, no signs."""
    for _ in range(MOST_FORMS):
        name = LEGAL_FORM.sub("", name.strip(" .,"))
    return re.sub(r"[\W_]+", "", name.casefold())
