"""Words that no error may contain: those of a validator, and numbers that do not fit their noun."""

import re

RAW = re.compile(
    r"Input should|Value error|Assertion failed|Extra inputs|unable to parse|Field required|should have at "
    r"|after validation|(?:String|Tuple|List|Value|UUID) should|pattern \^|is not valid$"
    r"|\b1 (?:characters|entries|jobs|tasks|pages|products)\b|\d\.0\b|922337203685477580"
)


def raw_words(text: str) -> list[str]:
    """The raw phrases of a text, with what stands around them."""
    return [text[max(0, found.start() - 80) : found.end() + 40] for found in RAW.finditer(text)]
