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


def _alternatives() -> str:
    """Codes and symbols, longest first. Those that begin or end with a letter must not be part of a word."""
    parts = []
    for each in sorted({*_CODES, *(code.lower() for code in _CODES), *_SYMBOLS}, key=len, reverse=True):
        before = r"(?<![^\W\d_])" if each[0].isalpha() else ""
        after = r"(?=\s?\d)" if each == "R" else r"(?![^\W\d_])" if each[-1].isalpha() else ""
        parts.append(f"{before}{re.escape(each)}{after}")
    return "|".join(parts)


CURRENCY = re.compile(_alternatives())
"""Finds a currency in a text, the longest one that begins at a place."""
