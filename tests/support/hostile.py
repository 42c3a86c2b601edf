"""Generates inputs that make a slow reader slow: pumps (a piece that is repeated) in the contexts of a page, for every
regular expression and every reader of page content."""

import ast
import importlib
import json
import pkgutil
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import forager
from forager.extract.html.document import Document, decoded
from forager.extract.html.limits import bounded
from forager.extract.html.structured_data import loads_tolerantly
from forager.extract.products.findings import says_missing
from forager.extract.sitemaps import from_robots, is_index, locations
from forager.extract.text.normalise import normalise
from forager.fetch.page_classifier import looks
from forager.fetch.robots import RobotsRules
from forager.pipelines.products.page_outcome import followable
from forager.pipelines.products.wiring import parsers
from forager.pipelines.scrape.extractor import PageInput
from forager.pipelines.scrape.extractors import EXTRACTORS

sre: Any = importlib.import_module("re._constants")
sre_parser: Any = importlib.import_module("re._parser")
AT = datetime(2026, 3, 4, tzinfo=UTC)
URL = "https://hostile.example/p/1"


class Late(Exception):
    """The call took longer than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `Late` inside of the block after this time. Works inside of a regular expression, which checks for
    signals."""

    def raise_late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGVTALRM, raise_late)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cpu_seconds(call: Callable[[], object], most: float) -> float:
    """Return the CPU seconds of a call; `most` for one that took longer, and was stopped."""
    began = time.process_time()
    try:
        with at_most(most):
            call()
    except Late:
        return most
    return min(most, time.process_time() - began)


# ── regular expressions ──


class Found(NamedTuple):
    pattern: re.Pattern[Any]
    where: str


_CALLS = frozenset("compile search match fullmatch sub subn split findall finditer".split())


def patterns() -> list[Found]:
    """Return every regular expression of the program: those in its modules, and those in calls of `re`."""
    found: dict[tuple[Any, int], Found] = {}
    for each in pkgutil.walk_packages(forager.__path__, "forager."):
        if each.name.endswith("__main__") or each.name.startswith("forager.sandbox"):
            continue
        try:
            module = importlib.import_module(each.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, value in list(vars(module).items()):
            for pattern in _inside(value, 0):
                found.setdefault((pattern.pattern, pattern.flags), Found(pattern, f"{each.name}.{name}"))
        for line, pattern in _in_calls(Path(module.__file__ or "")):
            found.setdefault((pattern.pattern, pattern.flags), Found(pattern, f"{each.name}:{line}"))
    return sorted(found.values(), key=lambda one: one.where)


def _inside(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 4:
        if isinstance(value, dict):
            parts: Any = [*value, *value.values()]
        elif isinstance(value, tuple | list | set | frozenset):
            parts = list(value)
        elif isinstance(value, type) and value.__module__.startswith("forager."):
            parts = list(vars(value).values())
        else:
            return
        for part in parts:
            yield from _inside(part, depth + 1)


def _in_calls(file: Path) -> Iterator[tuple[int, re.Pattern[Any]]]:
    for node in ast.walk(ast.parse(file.read_text())) if file.suffix == ".py" else ():
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=[ast.Constant(value=text), *_]
            ) if name in _CALLS:
                flags = re.IGNORECASE if "IGNORECASE" in ast.unparse(node) else re.NOFLAG
                yield node.lineno, re.compile(text, flags)


_OF_CATEGORY = {
    "CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a", "CATEGORY_NOT_SPACE": "a",
    "CATEGORY_NOT_DIGIT": "x", "CATEGORY_NOT_WORD": ".",
}  # fmt: skip


class Sampler:
    """Texts that a regular expression matches, wholly or at their beginning, and the characters that it names."""

    def __init__(self, pattern: re.Pattern[Any], seed: int) -> None:
        self._dice = random.Random(seed)
        text = pattern.pattern
        self._tree = sre_parser.parse(text.decode("latin-1") if isinstance(text, bytes) else text, pattern.flags & 0x1FF
                                      if isinstance(text, str) else pattern.flags & 0x1DF)  # fmt: skip
        self.characters: set[str] = set()
        self._collect(self._tree)

    def matching(self) -> str:
        return self._sample(self._tree)[:200]

    def pumps(self) -> tuple[list[str], list[str]]:
        """Return pieces to repeat, and beginnings to put before them."""
        characters = sorted(self.characters | set(" a1"))
        if len(characters) > 20:
            characters = sorted({*self._dice.sample(characters, 17), " ", "a", "1"})
        pairs = [one + other for one in characters for other in characters if one != other]
        pieces = {*characters, *self._dice.sample(pairs, min(len(pairs), 40))}
        beginnings = {""}
        for _ in range(8):
            text = self.matching()
            pieces |= {text, text + " "}
            cut = self._dice.randrange(len(text)) if text else 0
            pieces.add(text[: cut or 1])
            beginnings.add(text[:cut])
        return sorted(piece for piece in pieces if piece), sorted(beginnings)[:6]

    def _collect(self, tree: Any) -> None:
        for operation, value in tree:
            match operation:
                case sre.LITERAL | sre.NOT_LITERAL:
                    self.characters.add(chr(value))
                case sre.IN:
                    self.characters |= {one for one in map(self._of_class, value) if one}
                case sre.BRANCH:
                    for branch in value[1]:
                        self._collect(branch)
                case _:
                    for inner in _parts(operation, value):
                        self._collect(inner)

    def _of_class(self, part: Any) -> str:
        operation, value = part
        if operation is sre.LITERAL:
            return chr(value)
        if operation is sre.RANGE:
            return chr(value[0])
        return _OF_CATEGORY.get(str(value), "a") if operation is sre.CATEGORY else ""

    def _sample(self, tree: Any) -> str:
        out: list[str] = []
        for operation, value in tree:
            match operation:
                case sre.LITERAL:
                    out.append(chr(value))
                case sre.NOT_LITERAL | sre.ANY:
                    out.append("b" if value == ord("a") else "a")
                case sre.IN if value[0][0] is sre.NEGATE:
                    named = "".join(self._of_class(part) for part in value[1:])
                    out.append(next((each for each in "a1 .,-Z" if each not in named), "~"))
                case sre.IN:
                    out.append(self._of_class(self._dice.choice(value)))
                case sre.BRANCH:
                    out.append(self._sample(self._dice.choice(value[1])))
                case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
                    least, most, inner = value
                    times = self._dice.choice((least, max(least, min(most, 1)), min(most, max(least, 2))))
                    out += [self._sample(inner) for _ in range(min(times, 20))]
                case sre.SUBPATTERN | sre.ATOMIC_GROUP:
                    out += [self._sample(inner) for inner in _parts(operation, value)]
        return "".join(out)


def _parts(operation: Any, value: Any) -> list[Any]:
    match operation:
        case sre.SUBPATTERN:
            return [value[-1]]
        case sre.ATOMIC_GROUP:
            return [value]
        case sre.ASSERT | sre.ASSERT_NOT:
            return [value[1]]
        case sre.MAX_REPEAT | sre.MIN_REPEAT | sre.POSSESSIVE_REPEAT:
            return [value[2]]
    return []


# ── pages ──

PUMPS = (
    *" aA1-.,'\"/\\@([{<&|–€$:;ä東*#?=%~_!]})>\n\t©",
    "a ", "A ", "1 ", "1,", "1.", "a.", "a-", "A.", "a@", "@a", "1-", "$1", "€1 ", " - ", " | ", "| ", "Aa ", ", ",
    ". ", "12 Elm St ", "Inc. ", "Dayton, OH ", "a@b.", "http://", "www.a.", "+49 ", "(0)", "1-1 ", "2026-", "1/1/",
    "1 m² ", "$1,000 ", "1.000,", "per hour ", "at Aa ", "Aa & ", "- Aa", "–", " – ", "//", "/*", "*/", "\\u",
    "\\\"", "\"\"", "{\"",
    "[{", "}]", "\",\"", "<!--", "-->", "<b", "</b", "<p>", "<br>", "<a href=x>", "&amp;", "&#", "&lt;b&gt;", "]]>",
    "<![CDATA[", "a=\"", "a='", "<script>", "<svg>", "<title>", "typeof", "itemprop", "type=\"&", "<loc>", "</loc>",
    "<loc> ", "sitemap: ", "in stock ", "out of ", "1 left", "sold ", "available ", "not ", "street ", "straße",
    "cedex",
    "GmbH ", "GmbH & Co", "of ", "the ", "and ", "Location: ", "Salary ", "€ 1", "CHF", "1'000", "1 000", "from 1",
    "was $1 now ",
    "ABC", "A1", "1A", "ab1", "ä-", "'A", "A'", "_a", "a_", "..", "--", "  ", "\n ", "\r\n", "​", "ﬀ", "İ",
)  # fmt: skip
"""Pieces that are repeated, beside those of the regular expressions."""

_SCHEMA = {
    "JobPosting": "title description hiringOrganization jobLocation baseSalary employmentType identifier".split(),
    "Product": "name description brand sku gtin offers image category aggregateRating".split(),
    "Person": "name jobTitle worksFor address description".split(),
    "Organization": "name legalName address telephone email url description".split(),
    "Apartment": "name address numberOfRooms floorSize offers description".split(),
}


def _quoted(text: str) -> str:
    return json.dumps(text).replace("</", "<\\/")


def _markup(kind: str) -> Callable[[str], str]:
    def made(text: str) -> str:
        inner = ",".join(f'"{name}":{_quoted(text)}' for name in _SCHEMA[kind])
        return f'<script type="application/ld+json">{{"@type":"{kind}",{inner}}}</script><h1>Head</h1><p>words</p>'

    return made


def _attribute(text: str) -> str:
    return text.replace('"', "&quot;")


CONTEXTS: dict[str, Callable[[str], str]] = {
    "raw": lambda text: text,
    "title": lambda text: f"<title>{text}</title><h1>Head</h1><p>words</p>",
    "title of a profile": lambda text: f"<title>Jo{text} - x</title><h1>Head</h1><p>words</p>",
    "metas": lambda text: "".join(
        f'<meta property="{name}" content="{_attribute(text)}">'
        for name in ("og:title", "og:description", "og:site_name", "og:type", "product:price:amount", "description")
    ) + "<h1>Head</h1>",
    "headline": lambda text: f"<h1>{text}</h1><h2>{text}</h2>",
    "paragraph": lambda text: f"<title>T</title><h1>Head</h1><p>{text}</p><p>© 2026 {text}</p>",
    "escaped paragraph": lambda text: f"<h1>Head</h1><p>x{escape(text)}</p>",
    "labels": lambda text: "".join(
        f"<dl><dt>{label}<dd>{text}</dl>" for label in ("Location:", "Salary:", "Phone", "Bedrooms", "Price")
    ),
    "label": lambda text: f"<h1>Head</h1><dl><dt>{text}<dd>x</dl><ul><li>{text}</ul><table><tr><td>{text}<td>1</table>",
    "address": lambda text: f"<h1>Head</h1><address>{text}</address><footer>{text}</footer>",
    "price": lambda text: f'<h1>Head</h1><p class="price">$ {text}</p><span class="price-now">{text} €</span>'
                          f'<button>Add to cart</button>',
    "attributes": lambda text: f'<div class="{_attribute(text)}" style="{_attribute(text)}" title="{_attribute(text)}">'
                               f'<h1>Head</h1><p class="{_attribute(text)}">words</p></div>',
    "links": lambda text: f'<a href="{_attribute(text)}">x</a><a href="/x?{_attribute(text)}">{text}</a>'
                          f'<a href="mailto:{_attribute(text)}">m</a><a href="tel:{_attribute(text)}">t</a>'
                          f'<link rel="canonical" href="/c/{_attribute(text)}">'
                          f'<img src="/{_attribute(text)}" alt="{_attribute(text)}">',
    "script": lambda text: f"<h1>Head</h1><script>var x = {text}</script>",
    "data in a script": lambda text: f'<script>window.__DATA__ = {{"a": "{text}"}}; x = [{text}]</script>'
                                     f"<script>'colorImages': {{ 'initial': [{text}</script>",
    "json-ld, broken": lambda text: f'<script type="application/ld+json">{{"@type":"Product","name":{text}</script>',
    "json-ld, open string": lambda text: f'<script type="application/ld+json">{{"name":"{text}</script>',
    "microdata": lambda text: '<div itemscope itemtype="https://schema.org/Product">' + "".join(
        f'<span itemprop="{name}" content="{_attribute(text)}">{text}</span>' for name in ("name", "price", "brand")
    ) + "</div>",
    "rdfa": lambda text: f'<div vocab="https://schema.org/" typeof="Person"><b property="name">{text}</b></div>',
    "classes of known sites": lambda text: "".join(
        f'<div class="{name}">{text}</div>'
        for name in ("top-card-layout__title", "top-card-layout__headline", "top-card__subline-item", "headline")
    ) + "".join(f'<div id="{name}"><span>{text}</span></div>' for name in (
        "productTitle", "availability", "bylineInfo", "acrCustomerReviewText", "price", "priceblock_ourprice"
    )),
    **{f"json-ld {kind}": _markup(kind) for kind in _SCHEMA},
}  # fmt: skip


def _extract(extractor: Any) -> Callable[[str], object]:
    def read(page: str) -> object:
        extracted = extractor.parse(PageInput(URL, page, 200, AT), extractor.fields)
        return normalise(extractor.output, {field: found.value for field, found in extracted.fields.items()})

    return read


def _products(name: str) -> Callable[[str], object]:
    parser = parsers().known[name]

    def read(page: str) -> object:
        document = Document(page, URL, markup_first=True)
        return says_missing(document), parser.read(document), list(followable(document))

    return read


def _sitemap(text: str) -> object:
    body = text.encode("utf-8", "replace")
    return (
        is_index(body),
        sum(1 for _ in locations(b"<urlset>" + body)),
        sum(1 for _ in locations(body)),
        from_robots(body),
    )


READERS: dict[str, Callable[[str], object]] = {
    **{f"extractor {each.name}": _extract(each) for each in EXTRACTORS},
    **{f"product parser {name}": _products(name) for name in sorted(parsers().known)},
    "classifier": lambda page: looks(200, {"Content-Type": "text/html"}, page.encode("utf-8", "replace")),
    "decoder": lambda page: decoded(page.encode("utf-16"), "text/html"),
    "limits": bounded,
}
"""Read a page in one of the contexts."""

TEXT_READERS: dict[str, Callable[[str], object]] = {
    "sitemap": _sitemap,
    "robots.txt": lambda text: RobotsRules(text, "forager").allows(URL),
    "json": loads_tolerantly,
}
"""Read a text as it is."""


def repeated(piece: str, size: int) -> str:
    return piece * max(1, size // len(piece))


class Slow(NamedTuple):
    """An input whose cost grows faster than its size."""

    seconds: float
    """CPU seconds at the bigger size."""
    size: int
    beginning: str
    piece: str


NOTICED = 0.0004
"""CPU seconds for `SMALL` characters: a linear search takes less."""
SMALL, BIG = 2_000, 8_000


def slowest(call: Callable[[str], object], inputs: Iterator[tuple[str, str]], most: float = 0.5) -> Slow | None:
    """Return the worst of these inputs, given as a beginning and a piece to repeat, if its cost grows too fast."""
    worst: Slow | None = None
    for beginning, piece in inputs:

        def cost(size: int, beginning: str = beginning, piece: str = piece) -> float:
            text = beginning + repeated(piece, size) + "\0"
            return cpu_seconds(lambda: call(text), most)

        if cost(SMALL) < NOTICED:
            continue
        small = max(1e-6, min(cost(SMALL) for _ in range(3)))
        if small < NOTICED or (big := cost(BIG)) < 8 * small:
            continue
        big = min(big, cost(BIG), cost(BIG))
        if big >= 8 * small and (worst is None or big > worst.seconds):
            worst = Slow(big, BIG, beginning, piece)
        if worst is not None and worst.seconds >= most:
            break
    return worst


def searched(pattern: re.Pattern[Any]) -> Callable[[str], object]:
    """Search a text with a pattern, to its end."""

    def search(text: str) -> object:
        subject: Any = text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text
        return sum(1 for _ in pattern.finditer(subject))

    return search
