"""JSON as pages hold it: with comments, CDATA, trailing commas, bad escapes, a brace too many. Pure, never raises."""

import json
import re
from typing import Any

import orjson

LONGEST = 2_000_000
_WRAPPERS = re.compile(
    r"^\s*(?:<!--|//\s*<!\[CDATA\[|/\*\s*<!\[CDATA\[\s*\*/|<!\[CDATA\[)|(?:-->|//\s*\]\]>|/\*\s*\]\]>\s*\*/|\]\]>)\s*$"
)
# Strings first, so that nothing inside of one is taken for a comment or a comma. A string or comment that never ends
# takes all that follows: if it failed instead, the search would begin again at every quote, in quadratic time.
_OUTSIDE_STRINGS = re.compile(
    r"\"(?:[^\"\\]++|\\.)*+\"?+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?+|//[^\n]*+|,(?=\s*+[}\]])", re.DOTALL
)
_BAD_ESCAPE = re.compile(r"\\(?![\"\\/bfnrtu])")
_SHORT_UNICODE = re.compile(r"\\u(?![0-9a-fA-F]{4})")
_DECODER = json.JSONDecoder(strict=False)


def loads_tolerantly(text: str) -> Any:
    """What a script of JSON says; None where nothing can be made of it."""
    text = text[:LONGEST].strip().lstrip("\ufeff")
    if not text:
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    text = _WRAPPERS.sub("", _WRAPPERS.sub("", text)).strip().rstrip(";").strip()
    for mend in (_as_it_is, _without_comments, _with_good_escapes):
        text = mend(text)
        try:
            return _DECODER.raw_decode(text)[0]  # what comes after the first value is not ours to judge
        except (ValueError, RecursionError):
            continue
    return None


def _as_it_is(text: str) -> str:
    return text


def _without_comments(text: str) -> str:
    mended = text
    for _ in range(2):  # a comma may trail only once the comment after it is gone
        mended = _OUTSIDE_STRINGS.sub(lambda match: match[0] if match[0].startswith('"') else "", mended)
    start = re.search(r"[\[{]", mended)
    return mended[start.start() :] if start else mended


def _with_good_escapes(text: str) -> str:
    return _SHORT_UNICODE.sub(r"\\\\u", _BAD_ESCAPE.sub(r"\\\\", text))
