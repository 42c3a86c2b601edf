"""The rules of a robots.txt for one agent: groups, the longest match, wildcards, odd files."""

import json
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forager.fetch.robots import LONGEST_DELAY, MOST_BYTES, RobotsRules, decoded
from tests.support.shared_data import shared_data

HOST = "http://site.test"


def allows(text: str, path: str, agent: str = "Forager") -> bool:
    return RobotsRules(text, agent).allows(HOST + path)


# ── an oracle of its own: the rule of the RFC, by brute force ──


def reaches(pattern: str, path: str) -> bool:
    """Return whether a pattern matches a path, by keeping the set of possible positions in the pattern."""
    anchored = pattern.endswith("$")
    pattern = pattern[:-1] if anchored else pattern + "*"
    places = {0}
    for step in range(len(path) + 1):
        for place in range(len(pattern)):
            if place in places and pattern[place] == "*":
                places.add(place + 1)
        if step == len(path):
            break
        here = path[step]
        places = {p for p in places if p < len(pattern) and pattern[p] == "*"} | {
            p + 1 for p in places if p < len(pattern) and pattern[p] == here
        }
    return len(pattern) in places


Lines = list[tuple[bool, str]]  # (is it Allow?, the pattern)


def permitted(rules: Lines, path: str) -> bool:
    matching = [(len(pattern), allow) for allow, pattern in rules if pattern and reaches(pattern, path)]
    return max(matching)[1] if matching else True


segments = st.text("ab.-", max_size=3)
paths = st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
queries = st.one_of(st.just(""), st.text("ab&=", max_size=4).map(lambda text: "?" + text))
patterns = st.tuples(st.text("ab*/.-", max_size=6), st.sampled_from(["", "", "$"])).map(lambda p: f"/{p[0]}{p[1]}")
rules = st.lists(st.tuples(st.booleans(), patterns), max_size=6)
others = st.sampled_from(["Other", "Foragerish", "Forage", "my-Forager", "Forager-Image"])


def group(names: list[str], lines: Lines) -> list[str]:
    return [*(f"User-agent: {name}" for name in names), *(f"{'Allow' if a else 'Disallow'}: {p}" for a, p in lines)]


# Feature: scraping-microservices, Property 25: Robots.txt compliance
@settings(max_examples=100)
@given(
    mine=st.none() | rules,
    everybody=st.none() | rules,
    theirs=rules,
    other=others,
    spelling=st.sampled_from(["Forager", "forager", "FORAGER", "Forager/2.0", "Forager (+http://x)"]),
    order=st.permutations([0, 1, 2]),
    path=paths,
    query=queries,
)
@example(
    mine=[(True, "/a"), (False, "/a")],
    everybody=None,
    theirs=[],
    other="Other",
    spelling="Forager",
    order=[0, 1, 2],
    path="/a",
    query="",
)
def test_a_url_is_allowed_exactly_when_the_rules_for_us_permit_it__SC_P25(
    mine: Lines | None,
    everybody: Lines | None,
    theirs: Lines,
    other: str,
    spelling: str,
    order: list[int],
    path: str,
    query: str,
) -> None:
    groups = [
        group([spelling], mine) if mine is not None else [],
        group(["*"], everybody) if everybody is not None else [],
        group([other], [*theirs, (False, "/")]),
    ]
    text = "\n".join("\n".join(groups[number]) + "\n" for number in order)
    # A group without a rule runs on into the next one: its agents share that group's rules.
    assert allows(text, path + query) == permitted(_for_us(groups, order, mine, everybody), path + query)


def _for_us(groups: list[list[str]], order: list[int], mine: Lines | None, everybody: Lines | None) -> Lines:
    speaking: dict[int, Lines] = {0: [], 1: []}
    named: list[int] = []
    for number in (n for n in order if groups[n]):
        lines = [line for line in groups[number] if not line.startswith("User-agent")]
        named.append(number)
        if lines:
            for who in (n for n in named if n < 2):
                speaking[who] += [(line.startswith("Allow"), line.split(": ")[1]) for line in lines]
            named = []
    return speaking[0] if mine is not None else speaking[1] if everybody is not None else []


def test_the_oracle_passes_the_examples_of_the_rfc() -> None:
    assert reaches("/fish*.php", "/fish/food.php?id=1")
    assert not reaches("/*.php$", "/x.php?id=1")
    assert reaches("/*.php$", "/a/x.php")
    assert not reaches("/fish/", "/fish")
    assert reaches("/a*$", "/abc")


def test_the_published_facts_hold__SC_P25() -> None:
    facts = json.loads(shared_data("robots", "google_robotstxt_cases.json").read_text())
    wrong = [f for f in facts if RobotsRules(f["robots_txt"], f["user_agent"]).allows(f["url"]) != f["allowed"]]
    assert len(facts) > 100
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "url", "allowed"),
    [
        ("www.linkedin.com", "/in/somebody", False),
        ("www.amazon.com", "/dp/B000000000", True),
        ("www.amazon.com", "/gp/cart", False),
        ("newyork.craigslist.org", "/reply/1", False),
        ("newyork.craigslist.org", "/search/apa", True),
    ],
)
def test_real_files_are_read_as_a_reader_reads_them(name: str, url: str, allowed: bool) -> None:
    text = decoded(shared_data("robots", "real", f"{name}.robots.txt").read_bytes())
    assert allows(text, url) is allowed


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/x", True),
        ("Disallow: /", "/x", True),  # nobody is spoken to
        ("User-agent: *\nDisallow:", "/x", True),
        ("User-agent: *\nDisallow: /", "/x", False),
        ("user agent: *\rdisallow /x\r", "/xy", False),
        ("User-agent: *\nUnknown: 1\nUser-agent: Forager\nDisallow: /", "/x", False),
        ("User-agent: *\nSitemap: http://x\nDisallow: /", "/x", False),
        ("User-agent: *\nCrawl-delay: 5\n\nUser-agent: Bad\nDisallow: /", "/x", True),
        ("User-agent: *\nAllowed: /\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow: /a # b", "/a", False),
        ("User-agent: *\nDisallow: /search?q=", "/search?q=1", False),
        ("User-agent: *\nDisallow: /search?q=", "/search", True),
        ("User-agent: *\nDisallow: /*?", "/a?b", False),
        ("User-agent: *\nDisallow: /%7Ejoe", "/~joe/", False),
        ("User-agent: *\nDisallow: /~joe", "/%7ejoe/", False),
        ("User-agent: *\nDisallow: /caf\u00e9", "/caf%C3%A9", False),
        ("User-agent: *\nDisallow: /a b", "/a%20b", False),
        ("User-agent: *\nDisallow: /\u2028x", "/x", True),
    ],
)
def test_odd_lines_are_read_as_their_writers_meant_them(text: str, path: str, allowed: bool) -> None:
    assert allows(text, path) is allowed


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("User-agent: *\nCrawl-delay: 2.5", 2.5),
        ("User-agent: Forager\nCrawl-delay: 7\nUser-agent: *\nCrawl-delay: 2", 7.0),
        ("User-agent: Forager\nDisallow: /a\n\nUser-agent: *\nCrawl-delay: 2", None),
        ("User-agent: *\nCrawl-delay: 1e300", LONGEST_DELAY),
        ("User-agent: *\nCrawl-delay: nan", None),
        ("User-agent: *\nCrawl-delay: -1", None),
        ("User-agent: *\nCrawl-delay: soon", None),
    ],
)
def test_a_crawl_delay_is_passed_on_if_it_makes_sense(text: str, delay: float | None) -> None:
    assert RobotsRules(text, "Forager").crawl_delay == delay


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_does_not_hide_the_first_line(mark: str) -> None:
    assert not allows(decoded("User-agent: *\nDisallow: /x".encode(mark)), "/x")


def test_what_comes_after_500_kib_is_not_read() -> None:
    start = b"User-agent: *\nDisallow: /early\n"
    body = start + b"#" * (MOST_BYTES - len(start) - 1) + b"\nDisallow: /late\n"
    text = decoded(body)
    assert not allows(text, "/early")
    assert allows(text, "/late")


HOSTILE = {
    "ten megabytes": b"User-agent: *\nDisallow: /x\n" + b"Disallow: /a\n" * 800_000,
    "a hundred thousand rules": b"User-agent: *\n" + b"".join(b"Disallow: /%d*z$\n" % n for n in range(100_000)),
    "a hundred thousand groups": b"".join(b"User-agent: b%d\nDisallow: /\n" % n for n in range(100_000)),
    "one endless wildcard": b"User-agent: *\nDisallow: /" + b"*a" * 300_000 + b"b$",
    "many wildcards": b"User-agent: *\n" + (b"Disallow: /" + b"*a" * 200 + b"b$\n") * 2_000,
    "escapes": b"User-agent: *\n" + b"Disallow: /%61%62*%63\n" * 40_000,
    "binary": bytes(range(256)) * 4_000,
    "one line": b"User-agent: *\nDisallow" + b" " * 400_000 + b"/",
    "only returns": b"\r\n" * 400_000,
    "only colons": b":" * 600_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_takes_a_bounded_time(name: str) -> None:
    """Measured at up to 0.9 s to parse, off the loop, and 0.1 s to match; the limits have room for a slow machine."""
    started = time.process_time()
    found = RobotsRules(decoded(HOSTILE[name]), "Forager")
    parsed = time.process_time()
    found.allows(HOST + "/" + "a" * 4_000 + "c")
    assert parsed - started < 2.0
    assert time.process_time() - parsed < 1.0
