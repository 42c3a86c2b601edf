"""Decides whether a site's robots.txt allows a URL, and how slowly. Implements `core.rules.Robots`.

Meaning of an answer to `/robots.txt`:

2xx                                   obeyed
4xx                                   the site has none: everything is allowed
429, 5xx, time-out, another status    nothing is known: nothing is allowed, unless a good copy is younger than 24 hours
no connection                         the page cannot be reached either: the failure is raised as that of the page,
                                      unless there is such a copy
refused by our own egress guard       the page would be refused as well: the refusal is raised

A good copy (2xx or 4xx) is refreshed after 12 hours, or sooner by its `max-age`, but never within 10 minutes. A failed
try is repeated after 10 minutes. There is never more than one request for an origin's file at a time, and every request
goes through the caller's `fetch`.

A large file is parsed and matched by a reader; this process parses small ones only. A file that a reader cannot parse
counts as one that could not be fetched.
"""

import asyncio
import codecs
import re
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import quote

from protego import Protego
from yarl import URL

from forager.core.clock import Clock
from forager.core.errors import ParseFailed, ProxyFailed, Refused, Transient, Unreachable
from forager.core.http import Fetch, Request, Response
from forager.core.reading import InThread, Offload, ReadError
from forager.core.rules import RobotsFile, RobotsStore, RobotsVerdict
from forager.fetch.http.connect import shown

# Parses a robots.txt into the rules for one agent (RFC 9309). Pure; never raises, whatever a file contains.
#
# The groups for our agent are selected here, so that groups for other agents cost nothing; protego matches the rules
# (longest wins, `*`, `$`, percent-encoding). Where two readings of a file are common, a URL that either refuses is
# refused.


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


class RobotsRules:
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
    return Protego.parse(_written(rules, _ME))


def _written(rules: list[Rule], agent: str) -> str:
    """Return a file with one group."""
    lines = (f"{'crawl-delay' if name == 'delay' else name}: {value}" for name, value in rules)
    return "\n".join((f"user-agent: {agent}", *lines))


def _shielded(text: str) -> str:
    """Replace percent-escapes by upper-case placeholders that normalisation does not change."""
    return _ESCAPE.sub(lambda match: "%25" + match[0][1:].upper(), text)


# Large files, in a reader.


@dataclass(frozen=True, slots=True)
class RobotsSummary:
    """Result of parsing a large file."""

    size: int
    crawl_delay: float | None
    own: str | None
    """The group for our agent as a file of its own; None if it is too long to be matched in the event loop."""


def summarise(body: bytes, agent: str) -> RobotsSummary:
    """Parse a file in UTF-8. Most large files have few lines for us."""
    own = _written(_rules_for(body.decode("utf-8", "replace"), agent), agent)
    rules = RobotsRules(own, agent)
    return RobotsSummary(rules.size, rules.crawl_delay, own if rules.size <= SMALL else None)


def is_allowed(body: bytes, agent: str, url: str) -> bool:
    """Return whether the rules of a file allow a URL. A reader keeps the last files in parsed form."""
    return _kept(body, agent).allows(url)


@lru_cache(maxsize=4)
def _kept(body: bytes, agent: str) -> RobotsRules:
    return RobotsRules(body.decode("utf-8", "replace"), agent)


AGENT = "Forager"
RETRY = 600.0
"""Seconds until a file that could not be fetched is tried again."""
FRESH = 12 * 3600.0
"""Half of `VALID`: when a site goes down, the copy at hand is good for another half day at least."""
VALID = 24 * 3600.0
TIMEOUT = 20.0
LARGEST = 16 * 1024 * 1024
"""Only the first 500 KiB are parsed; a much larger file is not even downloaded."""
MOST_KEPT = 2_000
MOST_SIZE_KEPT = 8 * 1024 * 1024
"""Maximum characters of files and rules in memory. Parsed, they need up to twenty times that."""
SMALL = 16 * 1024
"""Most characters of a file, or of its rules, that are parsed or matched in the event loop; a reader takes the rest."""

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Known:
    """One origin's file in the memory of this process."""

    file: RobotsFile
    rules: "RobotsRules | RobotsSummary | None"
    """The parsed rules, or their summary if there are more than the event loop matches. None: the file cannot be
    used."""
    fresh: float = FRESH
    refusal: str | None = None
    """Refusal of our own guard at the last try."""


class RobotsTxt:
    def __init__(self, store: RobotsStore, clock: Clock, *, agent: str = AGENT, offload: Offload | None = None) -> None:
        """`offload`: the readers, which parse large files; threads if there are none."""
        self._store = store
        self._clock = clock
        self._agent = agent
        self._offload = offload or InThread()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._size = 0
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def ask(self, url: str, fetch: Fetch) -> RobotsVerdict:
        wire = _wire(url)
        if wire.path == "/robots.txt":
            return RobotsVerdict(allowed=True)
        origin = f"{wire.scheme}://{wire.host_subcomponent}:{wire.port}"
        known = self._in_memory(origin)
        if known is None or self._is_due(known):
            async with self._turn(origin):
                known = await self._up_to_date(origin, wire, fetch)
        return await self._verdict(known, str(wire))

    async def _up_to_date(self, origin: str, wire: URL, fetch: Fetch) -> _Known:
        """Return the file from memory, else from the ledger (after a restart, or from another process), else from the
        site."""
        known = self._in_memory(origin)
        if known is not None and not self._is_due(known):
            return known
        file = await self._store.read(origin)
        if file is not None and (known is None or file.tried_at > known.file.tried_at):
            rules = await self._parsed(file)
            unread = rules is None and file.body is not None
            known = self._remember(_Known(file, rules, RETRY if unread else FRESH))
            if not self._is_due(known):
                return known
        return await self._try(origin, wire, fetch, known)

    async def _try(self, origin: str, wire: URL, fetch: Fetch, known: _Known | None) -> _Known:
        address = str(wire.origin() / "robots.txt")
        response: Response | None = None
        refusal: str | None = None
        try:
            response = await fetch(Request(address, timeout=TIMEOUT, max_bytes=LARGEST))
        except Refused as error:
            refusal = error.message
        except ProxyFailed:
            raise  # no evidence about the site
        except Unreachable as error:
            if known is None or known.rules is None or self._age(known.file.good_at) >= VALID:
                error.where = shown(wire)
                raise
        except Transient:
            pass
        now = self._now()
        if response is not None and _is_an_answer(response.status):
            body = decoded(response.body) if response.status < 300 else ""
            file = RobotsFile(origin, now, response.status, body, now)
            rules = await self._parsed(file)
            learned = _Known(file, rules, _freshness(response, rules))
        else:
            before = known.file if known else RobotsFile(origin, now)
            file = replace(before, tried_at=now, status=response.status if response else None)
            learned = _Known(file, known.rules if known else None, refusal=refusal)
        if (
            refusal is None
        ):  # else no request was made: the ledger must not record a failure of the site for the next process
            await self._store.keep(file)
        return self._remember(learned)

    async def _verdict(self, known: _Known, url: str) -> RobotsVerdict:
        file, rules = known.file, known.rules
        if rules is not None and self._age(file.good_at) < VALID:
            if isinstance(rules, RobotsRules):
                return RobotsVerdict(rules.allows(url), rules.crawl_delay)
            try:
                allowed = await self._offload(is_allowed, (file.body or "").encode(), self._agent, url)
            except (ParseFailed, ReadError):
                return RobotsVerdict(allowed=False, ask_again_in=RETRY)
            return RobotsVerdict(allowed, rules.crawl_delay)
        if known.refusal is not None:
            where = "" if "/robots.txt" in known.refusal else f"{file.origin}/robots.txt: "
            raise Refused(f"{where}{known.refusal}")
        return RobotsVerdict(allowed=False, ask_again_in=max(1.0, RETRY - self._age(file.tried_at)))

    async def _parsed(self, file: RobotsFile) -> RobotsRules | RobotsSummary | None:
        if file.body is None:
            return None
        if len(file.body) <= SMALL:
            return RobotsRules(file.body, self._agent)
        try:
            summary = await self._offload(summarise, file.body.encode(), self._agent)
        except (ParseFailed, ReadError):
            return None
        return summary if summary.own is None else RobotsRules(summary.own, self._agent)

    def _is_due(self, known: _Known) -> bool:
        """Return whether a new request is due: the copy is no longer fresh, or the last try failed some time ago."""
        failed = known.file.good_at != known.file.tried_at
        return self._age(known.file.tried_at) >= (RETRY if failed else known.fresh)

    def _now(self) -> int:
        return round(self._clock.now().timestamp() * 1000)

    def _age(self, moment: int | None) -> float:
        """Return the age in seconds. An unknown moment, or one in the future because a clock was wrong, counts as
        infinitely old."""
        age = -1.0 if moment is None else (self._now() - moment) / 1000
        return age if age >= 0 else float("inf")

    def _in_memory(self, origin: str) -> _Known | None:
        known = self._known.get(origin)
        if known is not None:
            self._known.move_to_end(origin)
        return known

    def _remember(self, known: _Known) -> _Known:
        """Keep a file in memory, and drop the least recently used ones: the ledger has them."""
        self._forget(known.file.origin)
        self._known[known.file.origin] = known
        self._size += _size(known)
        while len(self._known) > MOST_KEPT or (self._size > MOST_SIZE_KEPT and len(self._known) > 1):
            self._forget(next(iter(self._known)))
        return known

    def _forget(self, origin: str) -> None:
        gone = self._known.pop(origin, None)
        self._size -= _size(gone) if gone else 0

    @asynccontextmanager
    async def _turn(self, origin: str) -> AsyncIterator[None]:
        """Serialise the requests for an origin's file. The next caller checks again: if the first one failed for its
        own reasons, it tries with its own `fetch`."""
        lock, waiting = self._turns.get(origin, (asyncio.Lock(), 0))
        self._turns[origin] = lock, waiting + 1
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._turns.pop(origin)
            if waiting > 1:
                self._turns[origin] = lock, waiting - 1


def _wire(url: str) -> URL:
    """Return the URL as it is sent."""
    try:
        wire = URL(url)
    except ValueError:
        raise Refused("This is not a URL, so robots.txt cannot be read for it.") from None
    if wire.scheme not in ("http", "https") or not wire.raw_host:
        raise Refused("Only http and https URLs have a robots.txt.")
    if wire.raw_fragment:
        wire = wire.with_fragment(None)
    return wire if wire.raw_user is None and wire.raw_password is None else wire.with_user(None)


def _is_an_answer(status: int) -> bool:
    return 200 <= status < 300 or (400 <= status < 500 and status != 429)


def _freshness(response: Response, rules: RobotsRules | RobotsSummary | None) -> float:
    """Return how long a copy is fresh. A long crawl-delay extends it; otherwise such a site would get requests for
    nothing but this file. One that cannot be parsed is tried again soon."""
    if rules is None:
        return RETRY
    max_age = _MAX_AGE.search(response.headers.get("Cache-Control", ""))
    least = max(RETRY, 3 * (rules.crawl_delay or 0.0))
    return min(max(float(max_age[1]), least), FRESH) if max_age else FRESH


def _size(known: _Known) -> int:
    """Return the size of a file in memory. Its text is kept with the rules, because a failed try stores it again."""
    return len(known.file.body or "") + (known.rules.size if known.rules else 0)
