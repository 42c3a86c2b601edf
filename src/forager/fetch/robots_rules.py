"""Parses a robots.txt into the rules for one agent (RFC 9309). Pure; never raises, whatever a file contains.

The groups for our agent are selected here, so that groups for other agents cost nothing; protego matches the rules
(longest wins, `*`, `$`, percent-encoding). Where two readings of a file are common, a URL that either refuses is
refused.
"""

import codecs
import re
from urllib.parse import quote

from protego import Protego

MOST_BYTES = 500 * 1024
"""Anything beyond is not parsed, as RFC 9309 allows."""
LONGEST_DELAY = 86_400.0
"""Maximum crawl-delay: one day. A longer one is taken for a mistake."""

_NAMES = re.compile(
    r"(?P<agent>user[- ]?agent)|(?P<allow>allow)"
    r"|(?P<disallow>disallow|dissallow|dissalow|disalow|diasllow|disallaw)"  # as sites really write it
    r"|(?P<delay>crawl[- ]?delay)|(?P<other>request[- ]rate|visit[- ]time)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z_-]*")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
_ME = "me"

Rule = tuple[str, str]
"""Name and value of a line."""


class Rules:
    """The rules of a file for one agent."""

    __slots__ = ("_as_normalized", "_as_written", "crawl_delay", "size")

    def __init__(self, text: str, agent: str) -> None:
        rules = _rules_for(text, agent)
        self.size = sum(len(value) for _, value in rules)
        """Size of the rules, in characters."""
        self._as_normalized = _parsed(rules)
        # RFC 9309 compares `%7E` and `~` as equal; the parser of its authors does not. Only a file with escapes can
        # mean two things.
        escaped = any("%" in value for _, value in rules)
        self._as_written = _parsed([(name, _shielded(value)) for name, value in rules]) if escaped else None
        delay = self._as_normalized.crawl_delay(_ME)
        self.crawl_delay = None if delay is None else min(delay, LONGEST_DELAY)

    def allows(self, url: str) -> bool:
        """Return whether a URL in its wire form is allowed. A URL in another form is refused."""
        if not self.size:
            return True
        if not url.isascii():
            return False
        if not self._as_normalized.can_fetch(url, _ME):
            return False
        return self._as_written is None or self._as_written.can_fetch(_shielded(url), _ME)


def decoded(body: bytes) -> str:
    """Decode a file: the first `MOST_BYTES`, without a byte order mark, with invalid bytes replaced."""
    body = body[:MOST_BYTES]
    utf16 = body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = body.decode("utf-16" if utf16 else "utf-8-sig", "replace")
    return text.replace("\0", "")  # no valid line contains one, and databases do not accept it


def _rules_for(text: str, agent: str) -> list[Rule]:
    """Return the rules of the groups that name the agent, else of the groups for `*`."""
    mine: list[Rule] = []
    everybody: list[Rule] = []
    named = False
    speaking_to: list[list[Rule]] = []
    last = ""
    for line in text.replace("\r", "\n").split("\n"):
        name, value = _read(line)
        if name == "agent":
            if last != "agent":
                speaking_to = []
            if _is_everybody(value):
                speaking_to.append(everybody)
            elif _is_named(value, agent):
                named = True
                speaking_to.append(mine)
        elif value and name != "other":
            for group in speaking_to:
                group.append((name, value))
        last = name or last  # an unknown line does not end a group
    return mine if named else everybody


def _is_everybody(value: str) -> bool:
    return value == "*" or value.startswith("*%20")


def _is_named(value: str, agent: str) -> bool:
    """Compare only the product token: `Forager/1.0 (…)` names Forager, `Forage` does not."""
    token = _TOKEN.match(value)
    return token is not None and bool(token[0]) and token[0].lower() == agent.lower()


def _read(line: str) -> Rule:
    """Return the canonical name of a line and its encoded value; `("", "")` for a line without meaning for us."""
    line = line.partition("#")[0].strip()
    match = _NAMES.match(line)
    if match is None:
        return "", ""
    rest = line[match.end() :]
    value = rest.lstrip()
    if value.startswith(":"):
        value = value[1:].lstrip()
    elif rest and rest == value:
        return "", ""  # the name goes on: it is another one
    return str(match.lastgroup), quote(value, safe=_PRINTABLE)


def _parsed(rules: list[Rule]) -> Protego:
    lines = (f"{'crawl-delay' if name == 'delay' else name}: {value}" for name, value in rules)
    return Protego.parse("\n".join((f"user-agent: {_ME}", *lines)))


def _shielded(text: str) -> str:
    """Replace percent-escapes by upper-case placeholders that normalisation does not change."""
    return _ESCAPE.sub(lambda match: "%25" + match[0][1:].upper(), text)
