"""Gain of learning from a shop's own pages: fields of its unmarked pages with learnt wrappers and without.

Real pages: product pages of the shared data set, by site, of sites with four or more. Each page is left out in turn:
the others teach, and it is read without its markup, whose sure values are the truth. Reported for all sites and for the
third that is held out. `harmed` counts values that were right without learning and are not with it.

Simulated pages: a shop that marks up every third page, whose generic reading is wrong by design.
"""

import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Any

import orjson

from bench.support.data_set import DATA, UNSAID, pages
from bench.support.held_out import is_held_out, site
from bench.support.kind_pages import known_pages
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.scores import plain
from bench.support.verdict import Target, conclude, print_table
from forager.extract.html.document import Document, decoded
from forager.extract.products.findings import ProductFindings
from forager.extract.products.learning import learn_pages, learn_site, sure_values
from forager.extract.products.parsers import base
from forager.extract.products.wrappers import PageWrapper, read_learnt
from forager.pipelines.products.wrappers import LEAST_SCORE
from forager.sandbox.shop import ShopConfig, ShopSandbox

TARGETS = (
    Target("gained", at_least=0.02),
    Target("harmed", at_most=0.0),
    Target("precision_lost", at_most=0.0),
    Target("precision_lost_held_out", at_most=0.0),
    Target("shop_recall", at_least=0.99),
    Target("shop_precision", at_least=0.99),
    Target("idle_share", at_most=1.02),
)
LEAST_PAGES = 4
SHOP = 60
ROUNDS = 15
_LD = re.compile(r"<script[^>]*ld\+json.*?</script>", re.IGNORECASE | re.DOTALL)
_META = re.compile(r"<meta\b[^>]*\b(?:property|itemprop)\s*=[^>]*>", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"\s(?:itemprop|itemscope|itemtype|typeof|property|vocab)(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>]+))?(?=[\s/>])"
)


@dataclass(frozen=True, slots=True)
class SitePage:
    url: str
    html: str
    held_out: bool

    def document(self) -> Document:
        return Document(self.html, self.url, markup_first=True)

    def without_markup(self) -> Document:
        text = _META.sub("", _LD.sub("", self.html))
        return Document(_ATTRIBUTE.sub("", text), self.url, markup_first=True)


def by_site() -> dict[str, list[SitePage]]:
    """The product pages of each site with enough of them."""
    found: dict[str, list[SitePage]] = defaultdict(list)
    for folder in ("products-2021", "kinds"):
        for page in known_pages(folder):
            if page.expected.get("page_kind", "product") == "product":
                found[site(page.name)].append(SitePage(page.url, decoded(page.body), is_held_out(page.name)))
    for name, body, expected in pages("product"):
        url = expected.get("url") or expected.get("canonical") or UNSAID
        found[site(name).removeprefix("www.")].append(SitePage(url, decoded(body), is_held_out(name)))
    return {name: several for name, several in sorted(found.items()) if len(several) >= LEAST_PAGES}


def wrappers_of(known: list[tuple[Document, dict[str, Any]]]) -> tuple[PageWrapper, ...]:
    """Return the paths that the pages teach and whose score fulfils the rule. Sites of the set have too few pages for
    the rule's support."""
    learnt = learn_pages(known)
    for template in learnt:
        template.fields = [each for each in template.fields if each.score >= LEAST_SCORE["teach"]]
    return tuple(template.as_wrapper() for template in learnt)


def verdicts(truth: dict[str, Any], found: ProductFindings) -> dict[str, str]:
    given = {name: found.get(name) if found.is_product else None for name in truth}
    return {name: "missing" if given[name] is None else _same(given[name], truth[name]) for name in truth}


def _same(ours: Any, theirs: Any) -> str:
    if isinstance(theirs, Decimal | int):
        return "right" if ours == theirs else "wrong"
    return "right" if plain(ours) == plain(theirs) else "wrong"


class Tally:
    """Verdicts without and with learning."""

    def __init__(self) -> None:
        self.before: Counter[str] = Counter()
        self.after: Counter[str] = Counter()
        self.harmed = 0

    def add(self, before: dict[str, str], after: dict[str, str]) -> None:
        self.before.update(before.values())
        self.after.update(after.values())
        self.harmed += sum(before[name] == "right" != after[name] for name in before)

    @staticmethod
    def shares(counts: Counter[str]) -> tuple[float, float]:
        """(recall, precision)"""
        right = counts["right"]
        return right / max(1, counts.total()), right / max(1, right + counts["wrong"])


def real() -> tuple[dict[str, float], list[tuple[str, ...]]]:
    tallies: dict[str, Tally] = defaultdict(Tally)
    rows, cpu = [], []
    for name, several in by_site().items():
        known = [(page.document(), dict[str, Any]()) for page in several]
        known = [(document, sure_values(base.read(document))) for document, _ in known]
        own = Tally()
        for number, page in enumerate(several):
            if not known[number][1]:
                continue
            began = time.process_time()
            learnt = wrappers_of([each for other, each in enumerate(known) if other != number])
            cpu.append(time.process_time() - began)
            document = page.without_markup()
            found = base.read(document)
            before = verdicts(known[number][1], found)
            read_learnt(document, found, learnt)
            after = verdicts(known[number][1], found)
            for tally in (own, tallies["all"], *((tallies["held out"],) if page.held_out else ())):
                tally.add(before, after)
        if own.before:
            shown = name if not several[0].held_out else "(held out)"
            rows.append((shown, str(len(several)), *_shown(own)))
    figures: dict[str, float] = {"learn_cpu_seconds": round(median(cpu), 2) if cpu else 0.0}
    for part, key in (("all", ""), ("held out", "_held_out")):
        tally = tallies[part]
        (recall, precision), (recall_now, precision_now) = Tally.shares(tally.before), Tally.shares(tally.after)
        figures |= {
            f"recall_without{key}": round(recall, 4),
            f"precision_without{key}": round(precision, 4),
            f"recall{key}": round(recall_now, 4),
            f"precision{key}": round(precision_now, 4),
            f"gained{key}": round(recall_now - recall, 4),
            f"precision_lost{key}": round(max(0.0, precision - precision_now), 4),
            f"harmed{key}": tally.harmed,
        }
        rows.append((part, "", *_shown(tally)))
    return figures, rows


def _shown(tally: Tally) -> Iterator[str]:
    for counts in (tally.before, tally.after):
        yield from (str(counts[verdict]) for verdict in ("right", "wrong", "missing"))
    yield str(tally.harmed)


def simulated() -> dict[str, float]:
    """A shop of which every third page is marked up."""
    shop = ShopSandbox(ShopConfig(pages=SHOP, layout="partly"))
    urls = {number: f"http://shop.example/p/{number}" for number in range(1, SHOP + 1)}
    bodies = {number: shop.render(number, "shop.example") for number in urls}
    told = [{"url": urls[number], "html": bodies[number].decode()} for number in urls]
    learnt = tuple(each.as_wrapper() for each in learn_site(orjson.dumps(told), base.read))
    without, with_it = Counter[str](), Counter[str]()
    for number, url in urls.items():
        if shop.shelf.layout(number, "shop.example") != "bare":
            continue
        product = shop.product(number)
        truth = {
            "product_name": product.name,
            "price": Decimal(product.price),
            "availability": product.availability,
            "brand": product.brand,
            "sku": product.sku,
            "gtin": product.gtin,
        }
        document = Document(bodies[number], url, markup_first=True)
        found = base.read(document)
        without.update(verdicts(truth, found).values())
        read_learnt(document, found, learnt)
        with_it.update(verdicts(truth, found).values())
    recall, precision = Tally.shares(with_it)
    return {
        "shop_recall_without": round(Tally.shares(without)[0], 4),
        "shop_recall": round(recall, 4),
        "shop_precision": round(precision, 4),
        "idle_share": idle_share(bodies[3], urls[3], learnt),
    }


def idle_share(body: bytes, url: str, learnt: tuple[PageWrapper, ...]) -> float:
    """CPU time of a page that lacks nothing, with the wrappers of its shop, against that without any."""

    def seconds(wrappers: tuple[PageWrapper, ...]) -> float:
        began = time.process_time()
        for _ in range(100):
            document = Document(body, url, markup_first=True)
            found = base.read(document)
            read_learnt(document, found, wrappers)
        return time.process_time() - began

    complete = tuple(
        PageWrapper(each.template, 1, each.anchors, tuple(p for p in each.paths if p.field in ("price", "sku")))
        for each in learnt
    )
    rounds = [(seconds(complete), seconds(())) for _ in range(ROUNDS)]
    return round(min(one for one, _ in rounds) / min(other for _, other in rounds), 3)


def main(options: Options) -> None:
    if not DATA.exists():
        sys.exit(f"the shared data set is not at {DATA}: set FORAGER_DATA")
    machine = Machine()
    machine.sample()
    figures, rows = real()
    figures |= simulated()
    machine.sample()
    head = ("site", "pages", "right", "wrong", "missing", "right, learnt", "wrong", "missing", "harmed")
    print_table(head, rows)
    conclude("learn", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
