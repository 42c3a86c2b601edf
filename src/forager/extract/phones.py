"""Telephone numbers to E.164. Pure. A doubtful number is left out: a wrong one is worse than none."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONGEST = 250
MOST_TRIES = 2_000
_TRUNK = re.compile(r"\(\s*0\s*\)")
_CODED_TRUNK = re.compile(r"((?:\+|\b00)\s?\d{1,3})\s*\(\s*0\s*\)\s*")
_ENOUGH_DIGITS = re.compile(r"(?:\d\D{0,6}){6}")
_AMERICAN = re.compile(r"(?<![\d+])(?:1[-. ])?\(?([2-9]\d\d)\)?[-. ]{1,2}([2-9]\d\d)[-. ](\d{4})(?!\d)")


@dataclass(frozen=True, slots=True)
class PhoneFound:
    number: str
    start: int
    end: int


def e164(value: str, region: str | None = None) -> str:
    """`+14152343611`. Without a + it takes a region (ISO, two letters) to know what the digits mean."""
    text = value.strip()
    if len(text) > LONGEST:
        raise ValueError("too long for a telephone number")
    text = text.removeprefix("tel:").replace("%20", " ")
    text = _TRUNK.sub("", text)
    if text.startswith(("(+", "( +", "+ ")) or (text.startswith("00") and not text.startswith("000")):
        text = "+" + re.sub(r"^00|\D", "", text)
    import phonenumbers  # 5 MB: only where pages are read

    try:
        number = phonenumbers.parse(text, region)
    except phonenumbers.NumberParseException as error:
        raise ValueError(f"not a telephone number: {error}") from error
    if not phonenumbers.is_valid_number(number):
        raise ValueError("no telephone has this number")
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)


def without_trunks(text: str) -> str:
    """The text with `+43 (0) 732` as `+43 732`: a zero that is dialled only inside of the country, with blanks around
    it, hides a number from `phones_in`."""
    return _CODED_TRUNK.sub(r"\1 ", text) if "(" in text else text


def phones_in(text: str, region: str | None = None) -> Iterator[PhoneFound]:
    """Numbers in a line of text. Without a region: those with a country code, and those in the American grouping."""
    if not _ENOUGH_DIGITS.search(text[:2_000]):
        return
    text = _TRUNK.sub(lambda numbers: " " * len(numbers[0]), text[:2_000])
    import phonenumbers

    matcher = phonenumbers.PhoneNumberMatcher(text, region, phonenumbers.Leniency.VALID, MOST_TRIES)
    numbers = [
        PhoneFound(
            phonenumbers.format_number(match.number, phonenumbers.PhoneNumberFormat.E164), match.start, match.end
        )
        for match in matcher
    ]
    yield from numbers
    if region is None:
        for american in _AMERICAN.finditer(text):
            if any(one.start < american.end() and american.start() < one.end for one in numbers):
                continue
            try:
                yield PhoneFound(e164(american[0], "US"), american.start(), american.end())
            except ValueError:
                continue
