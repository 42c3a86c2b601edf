"""JSON for a text stream, valid in every encoding that a terminal or pipe may have. Pure: the caller writes it."""

import codecs
import re
from typing import Any, TextIO

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")  # in JSON, these characters stand in strings only


def json_text(data: Any, stream: TextIO, *, indent: bool = False) -> str:
    """Return the data as JSON for this stream, without a newline at the end.

    Unless the stream is UTF-8, characters other than ASCII are escaped as in JSON (`\\u00e9`). The stream's own escape
    for what it cannot encode (`\\xe9`) is not JSON.
    """
    import orjson

    text = orjson.dumps(data, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return text if _is_utf8(stream) else _NOT_ASCII.sub(_escaped, text)


def _is_utf8(stream: TextIO) -> bool:
    """A stream without an encoding takes every character."""
    encoding = getattr(stream, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def _escaped(character: re.Match[str]) -> str:
    """JSON writes a character beyond the basic plane as the two surrogates of UTF-16."""
    units = character[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
