"""Quality of Markdown: word F1 of the main text by kind of page, fidelity of the Markdown, and cost.

The pages are `kinds` of the shared data set, with the main text that people have checked. The held-out third of their
sites is scored apart: rules and model were made without it. trafilatura reads the same pages in the same run.
"""

import importlib
import sys
import time
from collections import Counter, defaultdict
from statistics import mean, median
from typing import Any

from bench.support.data_set import DATA
from bench.support.held_out import is_held_out
from bench.support.kind_pages import KnownPage, known_pages
from bench.support.machine import Machine
from bench.support.markdown_fidelity import PARTS, WORD, fidelity, wrong_links
from bench.support.options import Options, parse
from bench.support.verdict import Target, conclude, print_table
from forager.core.reading import care
from forager.extract.html.document import Document
from forager.extract.html.main_text import main_text

trafilatura: Any = importlib.import_module("trafilatura")
TARGETS = (
    Target("f1_held_out", at_least=0.85),
    Target("f1_article_held_out", at_least=0.96),
    Target("fidelity", at_least=0.95),
    Target("links_wrong", at_most=0.01),
    Target("ms", at_most=8.0),
)
EVERY = 4
"""Share of the pages in a quick run: one of four."""


class Tally:
    """The results of one reader."""

    def __init__(self) -> None:
        self.f1: dict[tuple[str, bool], list[float]] = defaultdict(list)
        self.parts: dict[str, list[int]] = {name: [0, 0] for name in PARTS}
        self.links = [0, 0]
        self.milliseconds: list[float] = []

    def add(self, page: KnownPage, html: str, text: str, markdown: str, milliseconds: float) -> None:
        self.f1[page.expected["page_kind"], is_held_out(page.name)].append(f1(text, page.expected["main_content"]))
        for name, (right, of) in fidelity(html, page.url, markdown).items():
            self.parts[name][0] += right
            self.parts[name][1] += of
        wrong, of = wrong_links(html, page.url, markdown)
        self.links[0] += wrong
        self.links[1] += of
        self.milliseconds.append(milliseconds)

    def mean_f1(self, *, held_out: bool, kind: str | None = None) -> float:
        scores = [
            score
            for (each, held), many in self.f1.items()
            if held == held_out and kind in (None, each)
            for score in many
        ]
        return round(mean(scores), 4) if scores else 0.0

    def fidelity(self) -> float:
        shares = [right / of for right, of in self.parts.values() if of]
        return round(mean(shares), 4) if shares else 0.0


def f1(text: str, truth: str) -> float:
    """Return the F1 of the words of a text, each as often as it occurs."""
    own, wanted = (Counter(WORD.findall(each.lower())) for each in (text, truth))
    common = sum((own & wanted).values())
    return 2 * common / (own.total() + wanted.total()) if common else 0.0


def read(page: KnownPage, ours: Tally, theirs: Tally) -> None:
    html = Document(page.body).source
    care.is_needed = False  # as a reader does at its first attempt
    began = time.process_time()
    document = Document(html, page.url)
    markdown = main_text(document, "markdown") or ""
    spent = time.process_time() - began
    text = main_text(Document(html, page.url), "text") or ""
    ours.add(page, html, text, markdown, spent * 1000)
    began = time.process_time()
    markdown = _trafilatura(html, page.url, "markdown")
    spent = time.process_time() - began
    theirs.add(page, html, _trafilatura(html, page.url, "txt"), markdown, spent * 1000)


def _trafilatura(html: str, url: str, form: str) -> str:
    return (
        trafilatura.extract(
            html,
            url=url,
            output_format=form,
            include_links=form == "markdown",
            include_images=form == "markdown",
            include_tables=True,
            include_comments=False,
        )
        or ""
    )


def main(options: Options) -> None:
    if not DATA.exists():
        sys.exit(f"the shared data set is not at {DATA}: set FORAGER_DATA")
    machine = Machine()
    machine.sample()
    ours, theirs = Tally(), Tally()
    pages = [page for page in known_pages("kinds") if page.expected["main_content"]]
    for page in pages[:: EVERY if options.quick else 1]:
        read(page, ours, theirs)
    machine.sample()
    kinds = sorted({kind for kind, _ in ours.f1})
    print_table(
        ("kind", "F1", "trafilatura", "held out", "trafilatura"),
        [
            (
                name,
                *(f"{side.mean_f1(held_out=held, kind=kind):.3f}" for held in (False, True) for side in (ours, theirs)),
            )
            for name, kind in [*((kind, kind) for kind in kinds), ("all", None)]
        ],
    )
    print_table(
        ("part", "right", "of", "trafilatura", "of"),
        [(name, *map(str, ours.parts[name]), *map(str, theirs.parts[name])) for name in PARTS],
    )
    figures = {
        "f1": ours.mean_f1(held_out=False),
        "f1_held_out": ours.mean_f1(held_out=True),
        "f1_article_held_out": ours.mean_f1(held_out=True, kind="article"),
        "fidelity": ours.fidelity(),
        "links_wrong": round(ours.links[0] / max(1, ours.links[1]), 4),
        "ms": round(median(ours.milliseconds), 2),
        "trafilatura_f1": theirs.mean_f1(held_out=False),
        "trafilatura_f1_held_out": theirs.mean_f1(held_out=True),
        "trafilatura_f1_article_held_out": theirs.mean_f1(held_out=True, kind="article"),
        "trafilatura_fidelity": theirs.fidelity(),
        "trafilatura_links_wrong": round(theirs.links[0] / max(1, theirs.links[1]), 4),
        "trafilatura_ms": round(median(theirs.milliseconds), 2),
    }
    conclude("markdown", figures, TARGETS, machine)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
