"""The pages of a linked site, made from their numbers alone: articles in sections, and traps. Pure.

Useful are the articles, the pages of the sections' lists and the home page: each has a text of its own and is reached
by links. Everything else is a trap:

- a calendar whose months go on for ever, in both directions;
- filters of each list, in every combination and order, without any item of their own;
- session ids: every page of `/forum/` links to itself and others with another `sid`;
- copies of each article for printing, and for mobile telephones;
- old addresses that redirect to articles;
- a slow section, which is useful, and only takes longer.
"""

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from forager.core.errors import Rejected
from forager.sandbox.config import Knobs
from forager.sandbox.faults import Trouble

SYLLABLES = (
    "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bra cle dri flo gru sta tre vli wro zha".split()
)
PER_LIST = 40
MONTHS = "January February March April May June July August September October November December".split()
COLOURS, SIZES, SORTS = ("red", "blue", "green", "black"), ("s", "m", "l"), ("new", "name", "size")


@dataclass(frozen=True, kw_only=True)
class LinkedConfig(Knobs):
    name: ClassVar[str] = "linked"
    fault_names: ClassVar[frozenset[str]] = frozenset((*Trouble, "http403", "http404"))
    live: ClassVar[frozenset[str]] = Knobs.live

    log_limit: int = 200_000
    pages: int = 500
    """Articles, numbered from 1."""
    section_size: int = 400
    """Articles of one section."""
    words: int = 220
    """Words of an article."""
    traps: bool = True
    slow_every: int = 0
    """Every n-th article takes `slow_seconds`; 0: none."""
    slow_seconds: float = 0.5
    sitemap: bool = True
    """True if robots.txt names a sitemap."""
    edition: int = 0
    """Another number: every tenth article has another text."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.pages <= 1_000_000:
            raise Rejected("pages should be between 1 and 1,000,000")


class LinkedPages:
    """The site's pages by path."""

    def __init__(self, config: LinkedConfig) -> None:
        self.config = config
        self.sections = -(-config.pages // config.section_size)
        self._lexicon = _lexicon(config.seed)
        self._titles: dict[int, str] = {}

    def useful(self) -> set[str]:
        """Return the paths of all useful pages."""
        paths = {"/"} | {self.path(number) for number in range(1, self.config.pages + 1)}
        for section in range(self.sections):
            paths |= {self.list_path(section, page) for page in range(1, self.lists_of(section) + 1)}
        return paths

    def path(self, number: int) -> str:
        """Return the path of an article."""
        return f"/s{(number - 1) // self.config.section_size}/article-{number}"

    def list_path(self, section: int, page: int) -> str:
        return f"/s{section}/" if page == 1 else f"/s{section}/?page={page}"

    def lists_of(self, section: int) -> int:
        """Return how many pages the list of a section has."""
        return -(-len(self.numbers(section)) // PER_LIST)

    def numbers(self, section: int) -> range:
        first = section * self.config.section_size + 1
        return range(first, min(first + self.config.section_size, self.config.pages + 1))

    def home(self) -> str:
        links = [(self.list_path(section, 1), self.topic(section)) for section in range(self.sections)]
        if self.config.traps:
            links += [("/calendar/2026/3", "Calendar"), ("/forum/1", "Forum")]
        return self._page("Home", f"<h1>Home</h1><p>{self.prose(0, 60)}</p>{_list(links)}")

    def topic(self, section: int) -> str:
        dice = _dice(self.config.seed, "topic", section)
        return " ".join(dice.choices(self._lexicon, k=2)).title()

    def article(self, number: int, *, copy: str | None = None) -> str:
        """Return an article, or a copy of it: for printing, or for mobile telephones."""
        dice = _dice(self.config.seed, "links", number)
        edition = self.config.edition if number % 10 == 0 else 0
        title = self.title(number)
        links = []
        for _ in range(6):
            near = min(max(1, number + dice.randint(-30, 30)), self.config.pages)
            links.append((self.path(near), self.title(near)))
        links.append((self.path(dice.randint(1, self.config.pages)), "Another one"))
        if self.config.traps and copy is None:
            links += [(f"/print/{number}", "Print"), (f"/m{self.path(number)}", "Mobile")]
            if number % 10 == 3:
                links.append((f"/old/{number}", "Former address"))
        words = self.prose(number, self.config.words, edition)
        halves = words.split(". ")
        body = "".join(f"<p>{each}.</p>" for each in halves)
        return self._page(title, f"<article><h1>{title}</h1>{body}</article>{_list(links)}")

    def title(self, number: int) -> str:
        if number not in self._titles:
            dice = _dice(self.config.seed, "title", number)
            self._titles[number] = f"{' '.join(dice.choices(self._lexicon, k=3)).title()} {number}"
        return self._titles[number]

    def listing(self, section: int, page: int, filters: tuple[tuple[str, str], ...] = ()) -> str:
        """Return one page of a section's list; filters show a part of it, in another order."""
        numbers = list(self.numbers(section))[(page - 1) * PER_LIST : page * PER_LIST]
        if filters:
            dice = _dice(self.config.seed, "filter", section, page, filters)
            numbers = dice.sample(numbers, max(1, len(numbers) // 2))
        links = [(self.path(number), self.title(number)) for number in numbers]
        base = f"/s{section}/"
        more = [(self.list_path(section, page + 1), "Next")] if page < self.lists_of(section) and not filters else []
        if self.config.traps:
            more += [(f"{base}?{query}", query) for query in _filters(dict(filters))]
        heading = f"<h1>{self.topic(section)}, page {page}</h1>"
        return self._page(f"{self.topic(section)} {page}", f"{heading}{_list(links)}{_list(more)}")

    def calendar(self, year: int, month: int) -> str:
        before, after = (year - (month == 1), (month - 2) % 12 + 1), (year + (month == 12), month % 12 + 1)
        days = "".join(f"<td>{day}</td>" for day in range(1, 29))
        links = [(f"/calendar/{y}/{m}", f"{MONTHS[m - 1]} {y}") for y, m in (before, after)]
        text = "There is nothing to see in this month, and no event has been entered by anybody so far."
        body = f"<h1>{MONTHS[month - 1]} {year}</h1><p>{text}</p><table><tr>{days}</tr></table>{_list(links)}"
        return self._page(f"Calendar {year}-{month}", body)

    def forum(self, number: int, session: str) -> str:
        """Return a page of a forum that puts a new id of a session into each of its links."""
        dice = _dice(self.config.seed, "forum", session, number)
        fresh = f"{dice.getrandbits(64):016x}"
        links = [(f"/forum/{other}?visit={fresh}", f"Thread {other}") for other in (1, 2, 3)]
        links += [(f"/forum/{number};jsessionid={fresh.upper()}", "Here"), (f"/forum/1?sid={fresh}", "Start")]
        return self._page(f"Forum {number}", f"<h1>Forum {number}</h1><p>{self.prose(-number, 120)}</p>{_list(links)}")

    def prose(self, number: int, words: int, edition: int = 0) -> str:
        dice = _dice(self.config.seed, "prose", number, edition)
        chosen = dice.choices(self._lexicon, k=words)
        for place in range(11, words, 12):
            chosen[place] += "."
        return " ".join(chosen)

    def sitemap(self, base: str) -> str:
        paths = [self.path(number) for number in range(1, self.config.pages + 1)]
        rows = "".join(f"<url><loc>{base}{path}</loc></url>" for path in paths[:50_000])
        return f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{rows}</urlset>'

    def _page(self, title: str, body: str) -> str:
        menu = _list(
            [("/", "Home"), *((self.list_path(each, 1), f"Section {each}") for each in range(min(5, self.sections)))]
        )
        return (
            f'<!doctype html><html lang="en"><head><title>{title}</title><meta charset="utf-8"></head><body>'
            f"<header><nav>{menu}</nav></header><main>{body}</main>"
            "<footer><p>All words of this site mean nothing.</p></footer></body></html>"
        )


def _dice(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - a simulated site, the same each time


def _list(links: list[tuple[str, str]]) -> str:
    return "<ul>" + "".join(f'<li><a href="{url}">{text}</a></li>' for url, text in links) + "</ul>"


def _filters(chosen: dict[str, str]) -> list[str]:
    """Return the queries of a list's further filters, each in addition to those already chosen."""
    found = []
    for name, values in (("colour", COLOURS), ("size", SIZES), ("sort", SORTS)):
        for value in values:
            if chosen.get(name) != value:
                together = {**chosen, name: value}
                found += ["&".join(f"{key}={each}" for key, each in together.items())]
    return found


@lru_cache(maxsize=8)
def _lexicon(seed: int) -> list[str]:
    dice = _dice(seed, "words")
    return sorted({"".join(dice.choices(SYLLABLES, k=dice.randint(2, 4))) for _ in range(6_000)})
