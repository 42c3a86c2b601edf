"""Words and numbers that pages of homes use, in the languages that are read. A new language is a few words here."""

import re

_COUNTED = {"studio": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"}
_NUMBER = r"(?<![\d.,/-])(?P<number>\d{1,2}(?:[.,]\d)?|one|two|three|four|five|six)"
_BED_WORDS = (
    r"bed(?:room)?s?(?![a-z])|bds?(?=\s*(?:[|,/·•+-]|$|\d))|br(?![a-z])|bhk(?![a-z])|schlafzimmer|habitaci(?:ones|ón)|hab(?![a-z])"
    r"|dormitorios?|chambres?|camere da letto|"
    r"slaapkamers?|quartos?|sypialni\w*|soveværelser|sovrum"
)
_BATH_WORDS = (
    r"(?:full )?bath(?:room)?s?(?![a-z])|ba(?![a-z])|baños?|badezimmer|bäder|salles? de bains?|bagn[io]|badkamers?|"
    r"banheiros?|łazien\w+"
)
BEDS = re.compile(rf"{_NUMBER}\s*-?\s*(?:{_BED_WORDS})", re.IGNORECASE)
BATHS = re.compile(rf"{_NUMBER}\s*-?\s*(?:{_BATH_WORDS})", re.IGNORECASE)
BEDS_AFTER = re.compile(r"(?:bedrooms?|beds|schlafzimmer)\s*:?\s*(?P<number>\d{1,2})\b", re.IGNORECASE)
BATHS_AFTER = re.compile(r"(?:bathrooms?|baths|badezimmer)\s*:?\s*(?P<number>\d{1,2}(?:[.,]\d)?)\b", re.IGNORECASE)
AREA = re.compile(
    r"(?<![\d.,/])(?P<number>\d{1,3}(?:[.,\s]\d{3})+(?:[.,]\d{1,2})?|\d{1,6}(?:[.,]\d{1,2})?)\s?"
    r"(?P<unit>sq\.?\s?ft\b|sqft\b|ft2\b|ft²|square feet|m²|㎡|m2\b|mq\b|qm\b|quadratmeter|sq\.?\s?m\b)",
    re.IGNORECASE,
)
LABELLED_AREA = re.compile(
    r"(?:approx\.?\s*)?(?:sq\.?\s?ft\.?|square feet|wohnfläche|living area"
    r"|floor area)\s*:?\s*(?P<number>\d[\d.,]{1,8})",
    re.IGNORECASE,
)
LIVING_AREA = re.compile(
    r"(?:wohnfläche|living (?:area|space)|surface habitable|superficie habitable|woonoppervlakte)\b.{0,20}\d",
    re.IGNORECASE,
)
"""An area with a label that only homes have."""
_ROOM_WORDS = r"zimmer|rooms|pièces|kamers|locali|pokoje|pokoi"
ROOMS = re.compile(
    rf"(?:(?:anzahl |number of )?(?:{_ROOM_WORDS}|room|zi\.)\s*:?\s*\d{{1,2}}(?:[.,]5)?"
    rf"|\d{{1,2}}(?:[.,]5)?[\s-]?(?:{_ROOM_WORDS}))",
    re.IGNORECASE,
)
"""A number of rooms, beside its label."""
DWELLING = re.compile(
    r"\b(?:house|flat|apartment|villa|cottage|bungalow|duplex|penthouse|townhouse|condo(?:minium)?|maisonette|chalet"
    r"|maison|appartement|casa|piso|apartamento|appartamento|dúplex|ático|woning|mieszkanie)\b"
    r"|\b[a-zäöü-]*(?:wohnung|familienhaus|reihenhaus|doppelhaushälfte)\b",
    re.IGNORECASE,
)
"""What homes are called in titles."""
NOT_A_HOME = re.compile(
    r"^\W*(?:contact|about|visit|find|meet|join|our (?:team|offices?|locations?|stor(?:y|es))|locations?\b|offices?\b"
    r"|directions|opening|hours|welcome|news|careers?\b|privacy|terms|kontakt|impressum|über uns|anfahrt|standorte?\b"
    r"|contacte?|à propos|nous (?:contacter|trouver)|mentions légales|quiénes|sobre|cómo llegar|contatt|chi siamo"
    r"|dove siamo|over ons|om os|om oss|o nas)",
    re.IGNORECASE,
)
"""Headlines of pages that firms have, estate agents among them: the address there is their own."""
_MATTERS = (
    (
        "apartments? flats townhouses? condos? villas (?:miet|eigentums)?wohnung(?:en)? appartements? apartamentos?"
        " appartament[oi] viviendas? pisos woning(?:en)? mieszkani[ae]"
    ),
    "bed.?rooms? studios? schlafzimmer chambres? dormitorios? camere.da.letto slaapkamers? sypialnie",
    (
        "for.(?:rent|sale) to.(?:rent|let) zu.(?:vermieten|verkaufen) à.(?:louer|vendre) en.(?:alquiler|venta)"
        " in.(?:affitto|vendita) te.(?:huur|koop) na.(?:wynajem|sprzedaż)"
    ),
    "floor.?plans? grundrisse? plattegrond rzut planimetria",
    "kaltmiete nebenkosten monthly.rent rent.includes security.deposit kaution loyer council.tax epc.rating",
)
MATTERS_OF_HOMES = tuple(re.compile(rf"\b(?:{'|'.join(each.split())})\b", re.IGNORECASE) for each in _MATTERS)
"""Matters that pages of homes speak of. Furniture shops speak of bedrooms, and every firm of leases: one is not
enough."""
OTHER_AREA = re.compile(
    r"\b(?:plot|lot|land|garden|balcony|terrace|garage|grundstück|keller|balkon|super area|útiles|per|pro)\b",
    re.IGNORECASE,
)
"""Beside an area that is not the home's."""
OTHER_MONEY = re.compile(
    r"/\s?(?:sq|m²|m2|ft)|per sq|eur/m|€/m|\b(?:deposit|fee|kaution|nebenkosten|heizkosten|betriebskosten|warmmiete|"
    r"gesamtmiete|service charge|ground rent|council tax|mortgage|estimate\w*|est\.|average|typical|hoa|gastos"
    r"|hipoteca|"
    r"cuota|commission|provision|special|off the|bond|repayment|income|turnover|sold|reduced by|price change"
    r"|down payment)\b",
    re.IGNORECASE,
)
"""Beside an amount that is not the price."""
HOME_PRICE = re.compile(
    r"^(?:(?:netto)?kaltmiete|miete|mietpreis|kaufpreis|(?:monthly |asking |guide |starting |base )*rent"
    r"|(?:asking|guide) price|(?:precio del? )?alquiler|precio de venta|loyer|prix de vente|(?:canone di )?affitto"
    r"|prezzo di vendita|vraagprijs|koopprijs|huur(?:prijs)?|czynsz|aluguel|renda|nájem)\b|^(?:賃料|家賃|販売価格)",
    re.IGNORECASE,
)
"""Labels of prices that shops do not use."""
PRICE_LABEL = re.compile(
    HOME_PRICE.pattern
    + r"|^(?:(?:monthly |asking |guide |starting |base )*price|precio|prix|prezzo|prijs|cena|preço|pris|preis)\b",
    re.IGNORECASE,
)
NO_PRICE = re.compile(
    r"\b(?:call for price|price on (?:request|application)|poa|auf anfrage|prix sur demande|a consultar)\b",
    re.IGNORECASE,
)
RENT = re.compile(
    r"\b(?:for rent|to (?:rent|let)|rental|apartments? for rent|miete|mietwohnung|alquiler|à louer|affitto"
    r"|te huur|rent)\b|"
    r"/(?:rent|to-rent|mieten)\b",
    re.IGNORECASE,
)
SALE = re.compile(
    r"\b(?:for sale|en venta|zu verkaufen|kaufen|à vendre|in vendita|te koop|sale)\b|/(?:sale|for-sale|buy)\b",
    re.IGNORECASE,
)
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
AVAILABLE = re.compile(
    r"\b(?:available|verfügbar|bezugsfrei|bezug|frei|disponible|disponibile|beschikbaar|libre|move[- ]in)\b[^\d]{0,25}?"
    r"(?P<date>\d{1,2}[./]\d{1,2}[./]20\d\d|20\d\d-\d\d-\d\d"
    r"|\d{1,2}(?:er|st|nd|rd|th|\.)? (?:de )?\w{3,10}\.?,? (?:de )?20\d\d"
    r"|\w{3,10}\.? \d{1,2}(?:st|nd|rd|th)?,? 20\d\d)",
    re.IGNORECASE,
)
ENDS = re.compile(
    r"^(?:similar|related|nearby|recently (?:viewed|sold)|more (?:homes|properties|listings)|you may also"
    r"|other (?:homes|properties)|"
    r"communities recently|properties you|mortgage calculator|market (?:insights|trends)|ähnliche|weitere)\b",
    re.IGNORECASE,
)
"""A line after which other homes follow."""
LIST_TITLE = re.compile(
    r"^(?:[\d.,]+\s)?(?:houses|homes|propert(?:y|ies)|apartments?|flats|rentals|listings|real estate"
    r"|new instructions|results|"
    r"invest|nyc|immobilien|wohnungen|pisos|casas|maisons|appartements)\b(?!.*\d{3,}.*(?:road|street|drive|ave))",
    re.IGNORECASE,
)

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
    """The number of a match as plain text: `2,5` is 2.5, `two` is 2."""
    words = match["number"].casefold()
    return _COUNTED.get(words, words.replace(",", "."))


def times(after: str) -> int:
    """What the word after a number multiplies it by: `85 Lac`, `1.25 Cr`, `£1.2m`, `12.5万円`; else 1."""
    return next((factor for pattern, factor in _TIMES if pattern.match(after)), 1)
