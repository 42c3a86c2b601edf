"""Currencies as pages write them: symbols, codes and words, and the ISO 4217 code of those that are unmistakable. Pure.

A symbol that several countries use (`$`, `kr`, `¥`) has no code: assuming one would be wrong for the others.
"""

import re

_SYMBOLS: dict[str, str | None] = {
    "€": "EUR", "£": "GBP", "₤": "GBP", "₹": "INR", "₽": "RUB", "₴": "UAH", "₫": "VND", "₩": "KRW", "₪": "ILS",
    "₺": "TRY", "₦": "NGN", "₱": "PHP", "฿": "THB", "₲": "PYG", "₡": "CRC", "₸": "KZT", "₼": "AZN", "₾": "GEL",
    "₮": "MNT", "₭": "LAK", "₵": "GHS", "₿": None, "֏": "AMD", "៛": "KHR", "৳": "BDT", "؋": "AFN", "﷼": None,
    "$": None, "¥": None, "￥": None, "¢": None, "₨": None, "円": "JPY", "元": "CNY",
    "US$": "USD", "U$": "USD", "US $": "USD", "$US": "USD", "CA$": "CAD", "C$": "CAD", "Can$": "CAD", "A$": "AUD",
    "AU$": "AUD", "NZ$": "NZD", "HK$": "HKD", "NT$": "TWD", "S$": "SGD", "SG$": "SGD", "R$": "BRL", "MX$": "MXN",
    "Mex$": "MXN", "J$": "JMD", "RD$": "DOP", "TT$": "TTD", "BZ$": "BZD", "B$": None, "Z$": None, "N$": "NAD",
    "L$": None, "FJ$": "FJD", "G$": "GYD", "EC$": "XCD", "Bds$": "BBD", "BD$": "BMD", "CI$": "KYD", "SI$": "SBD",
    "WS$": "WST", "T$": "TOP", "C$.": "NIO", "NAf.": "ANG", "AR$": "ARS", "CL$": "CLP", "COL$": "COP", "$U": "UYU",
    "$b": "BOB", "MOP$": "MOP", "CN¥": "CNY", "JP¥": "JPY", "RMB": "CNY",
    "zł": "PLN", "zl": "PLN", "Kč": "CZK", "Kc": "CZK", "Ft": "HUF", "kr": None, "kr.": None, "Kr": None, "Kr.": None,
    "лв": "BGN", "лв.": "BGN", "руб": "RUB", "руб.": "RUB", "р.": "RUB", "р": "RUB", "Р": "RUB", "грн": "UAH",
    "грн.": "UAH", "lei": "RON", "Lei": "RON", "kn": "HRK", "ден": "MKD", "дин": "RSD", "дин.": "RSD", "Дин.": "RSD",
    "din": "RSD", "din.": "RSD", "KM": "BAM", "Rs": None, "Rs.": None, "Rp": "IDR", "RM": "MYR", "Fr.": "CHF",
    "SFr.": "CHF", "Fr": None, "TL": "TRY", "TRL": "TRY", "YTL": "TRY", "Bs": None, "Bs.": None, "B/.": "PAB",
    "S/.": "PEN", "S/": "PEN", "Gs": "PYG", "R": "ZAR", "ман": "AZN", "ман.": "AZN",
    "som": None, "сом": "KGS", "сўм": "UZS", "тг": "KZT", "тг.": "KZT", "тенге": "KZT", "Br": None, "Nfk": "ERN",
    "Rf": "MVR", "Rf.": "MVR", "MRf": "MVR", "Nu.": "BTN", "UM": "MRU", "Db": "STN", "Le": "SLE",
    "Ar": "MGA", "FBu": "BIF", "FCFA": None, "CFA": None, "F\xa0CFP": "XPF",
    "KSh": "KES", "KSh.": "KES", "TSh": "TZS", "USh": "UGX", "So.": None, "Sh.So.": "SOS", "Esc": "CVE", "DA": "DZD",
    "DH": None, "Dhs": "AED", "Dh": "AED", "AED": "AED", "SR": "SAR", "QR": "QAR", "BD": None, "KD": "KWD",
    "JD": "JOD", "OMR": "OMR", "LE": "EGP", "MT": "MZN", "ƒ": None, "m.": None, "Lek": "ALL",
    "Ls": "LVL", "Lt": "LTL", "đ": "VND", "VNĐ": "VND", "Php": "PHP", "MMK": "MMK", "Ks": "MMK", "Tk": "BDT",
    "تومان": None, "ريال": None, "ر.س": "SAR", "د.إ": "AED", "د.إ.‏": "AED", "ج.م": "EGP", "د.ك": "KWD", "ر.ق": "QAR",
    "euro": "EUR", "Euro": "EUR", "euros": "EUR", "Euros": "EUR", "dollars": None, "рублей": "RUB", "рубль": "RUB",
    "рубля": "RUB", "GBX": None, "원": "KRW", "₣": None, "₶": None, "LEI": "RON", "Zł": "PLN", "र": "INR", "ریال": None,
    "جنيه": "EGP", "درهم": None, "Dinara": "RSD", "CUC$": None, "GH₵": "GHS", "Fdj": "DJF", "LD": "LRD",
    "yen": "JPY", "yuan": "CNY", "人民币": "CNY", "圆": "CNY", "圓": None, "บาท": "THB", "E£": "EGP", "￡": "GBP",
    "CAN$": "CAD", "AU $": "AUD", "GY$": "GYD", "دج": "DZD", "د.ج": "DZD", "د.ب": "BHD", "د.ت": "TND", "د.م": "MAD",
    "د.أ": "JOD", "د.ا": "JOD", "دينار أردني": "JOD", "دينار كويتي": "KWD", "دينار": None, "ع.د": "IQD", "د.ع": "IQD",
    "ل.د": "LYD", "د.ل": "LYD", "ر.ع": "OMR", "ر.ي": "YER", "ل.س": "SYP", "ل.ل": "LBP", "ج.س": "SDG", "ናቕፋ": "ERN",
    "ብር": "ETB", "ლარი": "GEL", "ლ": "GEL", "lari": "GEL", "FRw": "RWF", "ДЕН": "MKD", "Дин": "RSD", "KShs": "KES",
    "ש״ח": "ILS", 'ש"ח': "ILS", "hrn": "UAH", "so'm": "UZS", "රු": "LKR", "ரூ": None, "SFr": "CHF", "Vt": "VUV",
    "MK": "MWK", "DT": "TND", "VT": "VUV", "ZK": "ZMW", "FG": "GNF", "PTE": None, "DEM": None,
}  # fmt: skip
_CODES = frozenset(
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF "
    "CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK "
    "HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LTL LVL LYD "
    "MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG "
    "QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD "
    "TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG".split()
)


def is_currency(code: str) -> bool:
    """Whether this is an ISO 4217 code, in upper case."""
    return code in _CODES


def iso_currency(written: str | None) -> str | None:
    """The ISO 4217 code for a symbol, word or code; None if it is unknown or several currencies share it."""
    if not written:
        return None
    text = written.strip()
    if text.upper() in _CODES:
        return text.upper()
    return _SYMBOLS.get(text)


class _Tree(dict[str, "_Tree"]):
    """Codes and symbols by their letters, so that a text is looked through once and not once for each of them."""

    ends = False

    def add(self, written: str) -> None:
        node = self
        for letter in written:
            node = node.setdefault(letter, _Tree())
        node.ends = True

    def pattern(self, written: str = "") -> str:
        """Matches the longest one. What begins or ends with a letter must not be part of a word."""
        after = [re.escape(letter) + node.pattern(written + letter) for letter, node in sorted(self.items())]
        here = [_border(written)] if self.ends else []
        return f"(?:{'|'.join(after + here)})" if len(after) + len(here) > 1 else "".join(after + here)


def _border(written: str) -> str:
    if written == "R":
        return r"(?=\s?\d)"
    return r"(?![^\W\d_])" if written[-1].isalpha() else ""


def _finder() -> re.Pattern[str]:
    words, signs = _Tree(), _Tree()
    for each in {*_CODES, *(code.lower() for code in _CODES), *_SYMBOLS}:
        (words if each[0].isalpha() else signs).add(each)
    return re.compile(rf"(?<![^\W\d_]){words.pattern()}|{signs.pattern()}")


CURRENCY = _finder()
"""Finds a currency in a text, the longest one that begins at a place."""
