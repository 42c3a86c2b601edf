"""The pure parts of sites: addresses and traps, fingerprints, what a crawl learns, and exported files."""

import random
from pathlib import PurePosixPath

import pytest

from forager.pipelines.sites.addresses import Scope, each_once, matches, one_address, pattern_of, rank_of
from forager.pipelines.sites.export import chapter, contents, file_name, file_text
from forager.pipelines.sites.fingerprint import NearIndex, distance, fingerprint
from forager.pipelines.sites.frontier import Frontier
from forager.pipelines.sites.reading import read_page
from forager.pipelines.sites.records import next_interval

YEAR = 2026
SCOPE = Scope("docs.example")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://docs.example/guide", None),
        ("https://docs.example/blog/2019/03/post", None),
        ("https://other.example/guide", "outside"),
        ("https://www.docs.example/guide", None),
        ("https://api.docs.example/guide", "outside"),
        ("https://docs.example/logo.png", "not_a_page"),
        ("https://docs.example/calendar/2031/05", "trap"),
        ("https://docs.example/events?month=5&year=2040", "trap"),
        ("https://docs.example/a/b/a/b/a/b/", "trap"),
        ("https://docs.example/x?a=1&b=2&c=3&d=4&e=5&f=6&g=7", "trap"),
        ("https://docs.example/wiki?action=edit&title=A", "trap"),
        ("https://docs.example/" + "long/" * 26, "trap"),
    ],
)
def test_scope_refuses_outside_and_endless_addresses(url: str, reason: str | None) -> None:
    assert SCOPE.refusal(url, YEAR) == reason


def test_patterns_choose_paths_and_subdomains_are_of_one_domain() -> None:
    scope = Scope("docs.example", subdomains=True, include=("/guide/*",), exclude=("*/old*",))
    assert scope.refusal("https://docs.example/guide/a", YEAR) is None
    assert scope.refusal("https://docs.example/blog/a", YEAR) == "not_included"
    assert scope.refusal("https://docs.example/guide/old", YEAR) == "excluded"
    assert Scope("www.docs.example", subdomains=True).covers("https://api.docs.example/")
    assert not Scope("www.docs.example", subdomains=True).covers("https://api.other.example/")


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not matches("/" + "*a" * 60 + "*b", "/" + "a" * 1_400)


def test_session_ids_are_no_part_of_an_address() -> None:
    same = each_once(
        [
            "https://docs.example/a?sid=0123456789abcdef",
            "https://docs.example/a;jsessionid=ABCDEF0123456789",
            "https://docs.example/a?PHPSESSID=0123456789abcdef#top",
        ]
    )
    assert same == ["https://docs.example/a"]
    assert one_address("https://docs.example/a?id=7") == "https://docs.example/a?id=7"
    assert one_address("mailto:a@docs.example") is None


def test_pages_of_one_program_have_one_pattern() -> None:
    assert pattern_of("https://d.example/p/1?b=2&a=1") == pattern_of("https://d.example/p/22?a=5&b=0")
    assert pattern_of("https://d.example/p/1") != pattern_of("https://d.example/q/1")
    assert rank_of("https://d.example/a", 3) < rank_of("https://d.example/a?x=1", 1)
    assert rank_of("https://d.example/a?page=2", 3) == 3


def _text(seed: int, words: int = 200) -> list[str]:
    dice = random.Random(seed)
    return ["".join(dice.choices("abcdefghijklmnop", k=6)) for _ in range(words)]


def test_fingerprints_of_near_texts_are_near_and_of_others_are_far() -> None:
    near = far = 0
    for seed in range(50):
        words = _text(seed, 500)
        changed = [*words[:-2], "another", "ending"]
        near += distance(fingerprint(" ".join(words)), fingerprint(" ".join(changed))) <= 3
        far += distance(fingerprint(" ".join(words)), fingerprint(" ".join(_text(seed + 1000)))) > 10
    assert near >= 40
    assert far == 50


def test_numbers_do_not_count_and_short_texts_have_no_fingerprint() -> None:
    words = " ".join(_text(1))
    assert fingerprint(f"{words} 17 2026-03-14") == fingerprint(f"{words} 99 1999-01-01")
    assert fingerprint("nothing to see here") == 0


def test_the_index_finds_what_is_near_and_forgets_the_oldest() -> None:
    index = NearIndex(most=3)
    index.add(0b1111 << 20, "a")
    assert index.find((0b1111 << 20) ^ 0b111) == "a"
    assert index.find((0b1111 << 20) ^ 0b1111) is None
    for number in range(1, 4):
        index.add(number * 0x9E3779B97F4A7C15 % 2**64, str(number))
    assert len(index) == 3
    assert index.find(0b1111 << 20) is None


def test_copies_elsewhere_make_a_pattern_a_trap_and_similar_pages_of_a_plain_path_do_not() -> None:
    frontier = Frontier()
    for number in range(5):
        frontier.note(f"https://d.example/print/{number}", 1, [], original=f"https://d.example/a/{number}")
    assert frontier.is_trap("https://d.example/print/99")
    for number in range(100):
        frontier.note(f"https://d.example/p/{number}", 1, [], original="https://d.example/p/0")
    assert not frontier.is_trap("https://d.example/p/101")
    for number in range(20):
        frontier.note(f"https://d.example/l?colour={number}", number + 1, [])
    assert frontier.is_trap("https://d.example/l?colour=77")
    for number in range(20):
        frontier.note(f"https://d.example/l?page={number}", number + 1, [f"https://d.example/x/{number}"])
    assert not frontier.is_trap("https://d.example/l?page=77")


def test_an_address_is_handed_over_once_and_again_to_the_page_that_had_it() -> None:
    frontier = Frontier()
    assert frontier.hand_over(["a", "b"], by="one") == ["a", "b"]
    assert frontier.hand_over(["a", "c"], by="two") == ["c"]
    assert frontier.hand_over(["a", "b"], by="one") == ["a", "b"], "its settlement may have been lost"


def test_the_interval_follows_changes_within_bounds() -> None:
    assert next_interval(800, 800, changed=True) == 400
    assert next_interval(800, 800, changed=False) == 1200
    assert next_interval(800, 100, changed=True) == 100
    assert next_interval(800, 6400, changed=False) == 6400


def test_a_page_marked_nofollow_has_no_links() -> None:
    page = b'<html><head><meta name="robots" content="noindex, nofollow"></head><body><a href="/x">x</a></body></html>'
    read = read_page(page, "text/html", "https://d.example/a", "text")
    assert read.links == ()
    assert not read.indexed
    page = b'<html><body><a href="/x" rel="nofollow">x</a><a href="/y#z">y</a><a href="y">y</a></body></html>'
    assert read_page(page, "text/html", "https://d.example/", None).links == ("https://d.example/y",)


@pytest.mark.parametrize(
    "url", ["https://d.example/a/../../etc/passwd", "https://d.example/%2e%2e/%2Fetc", "https://d.example/con"]
)
def test_no_page_names_a_file_outside_the_folder(url: str) -> None:
    path = PurePosixPath(file_name(url, "markdown"))
    assert not path.is_absolute()
    assert ".." not in path.parts
    assert path.suffix == ".md"


def test_files_have_front_matter_and_different_pages_different_names() -> None:
    urls = [
        "https://d.example/",
        "https://d.example/a",
        "https://d.example/a/",
        "https://d.example/a?x=1",
        "https://d.example/a.html",
    ]
    assert len({file_name(url, "markdown") for url in urls}) == len(urls)
    page = {"url": urls[1], "title": 'A "title"', "form": "markdown", "content": "# A\n\n```\n# code\n```\n## B"}
    text = file_text(page)
    assert text.startswith("---\nurl: ")
    assert 'title: "A \\"title\\""' in text
    whole = "".join(contents([page], "d.example")) + chapter(1, page)
    assert '1. [A "title"](#page-1)' in whole
    assert "## A\n\n```\n# code\n```\n### B" in whole
