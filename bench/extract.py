"""Accuracy on real pages: product, job, company and profile pages of the shared data set, its price strings and its
robots facts.

Recall: asserted fields found right. Precision: of the values given for asserted fields, those that are right. Both are
reported for the whole set and for the third of its sites that is held out: the rules were written without looking at
it. Every page is read by the extractors that users run, and normalised as for them. No code here names a page; BENCH.md
maps fields to expected values. Pages are also requested as another kind than they are: these must be refused.
"""

import gzip
import json
import statistics
import sys
import time

from bench.support.company_pages import companies, profiles
from bench.support.data_set import DATA, UNSAID
from bench.support.descriptions import descriptions
from bench.support.job_pages import jobs
from bench.support.kind_pages import kinds, products_2021
from bench.support.listing_pages import listings
from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.other_kinds import refused
from bench.support.product_pages import prices, products
from bench.support.scores import Score
from bench.support.verdict import Target, conclude, print_table
from forager.core.reading import care
from forager.extract.products.parsers import base
from forager.fetch.robots import RobotsRules
from forager.pipelines.products.page_outcome import read_page

TARGETS = (
    Target("product_recall", at_least=0.93),
    Target("product_precision", at_least=0.98),
    Target("product_recall_held_out", at_least=0.90),
    Target("product_precision_held_out", at_least=0.97),
    Target("job_recall", at_least=0.92),
    Target("job_precision", at_least=0.96),
    Target("job_recall_held_out", at_least=0.85),
    Target("job_precision_held_out", at_least=0.92),
    Target("company_recall", at_least=0.90),
    Target("company_precision", at_least=0.95),
    Target("company_recall_held_out", at_least=0.85),
    Target("company_precision_held_out", at_least=0.92),
    Target("profile_recall", at_least=0.90),
    Target("listing_recall", at_least=0.90),
    Target("listing_precision", at_least=0.97),
    Target("listing_recall_held_out", at_least=0.85),
    Target("listing_precision_held_out", at_least=0.95),
    Target("real_price_f1", at_least=0.92),
    Target("real_availability_f1", at_least=0.95),
    Target("real_sku_f1", at_least=0.84),
    Target("real_brand_f1", at_least=0.80),
    Target("kinds_found", at_least=0.92),
    Target("kinds_refused", at_least=0.98),
    Target("kinds_refused_held_out", at_least=0.98),
    Target("kinds_no_posting", at_least=0.98),
    Target("kinds_no_home", at_least=0.98),
    Target("kinds_not_walled", at_least=0.998),
    Target("job_posting_refused", at_least=0.97),
    Target("listing_refused", at_least=0.97),
    Target("product_refused", at_least=0.97),
    Target("descriptions_clean", at_least=0.8),
    Target("sure_right", at_least=0.97),
    Target("prices", at_least=0.97),
    Target("robots", at_least=1.0),
    Target("cpu_ms_real", at_most=6.0),
)
SURE = 0.9
"""Confidence from which nearly every value must be right."""


def main(options: Options) -> None:
    if not DATA.exists():
        sys.exit(f"the shared data set is not at {DATA}: set FORAGER_DATA")
    machine = Machine()
    machine.sample()
    pages_of_jobs, answers = jobs()
    scores = {
        "product": products(),
        "job": pages_of_jobs,
        "job_answer": answers,
        "company": companies(),
        "profile": profiles(),
        "listing": listings(),
    }
    scores["product_2021"], real = products_2021()
    kinds_score, kind_figures = kinds()
    priced = prices(DATA / "prices" / "price_strings.csv")
    right, of = robots()
    clean = descriptions()
    refusals = refused()
    machine.sample()
    print_scores({**scores, "page kind": kinds_score})
    failures = [failure for score in (*scores.values(), clean) for failure in score.failures()]
    if failures:
        print_table(("page that is not held out", "field", "ours", "expected"), failures)
    if priced.failures:
        print_table(("price string", "", "ours", "expected"), priced.failures)
    sure = [answer for score in scores.values() for answer in score.answers if (answer.confidence or 0) >= SURE]
    figures = {
        **figures_of(scores),
        **real,
        **kind_figures,
        **refusals,
        "descriptions_clean": round(clean.recall, 4),
        "sure_right": round(sum(answer.verdict == "right" for answer in sure) / max(1, len(sure)), 4),
        "sure_values": len(sure),
        "prices": round(priced.share, 4),
        "prices_expected_to_fail": round(priced.share_of_hard, 4),
        "robots": round(right / of, 4),
        "cpu_ms_real": round(cpu_of_real_pages(), 2),
    }
    conclude("extract", figures, TARGETS, machine)


def print_scores(scores: dict[str, Score]) -> None:
    """One row per kind, then one per field of it: the whole set, and the held-out third."""
    rows = []
    for kind, whole in scores.items():
        rows.append((kind, *_row(whole), f"{whole.milliseconds_a_page:.1f}"))
        rows += [(f"  {name}", *_row(part), "") for name, part in whole.by_field().items()]
    head = ("field", "right", "wrong", "missing", "recall", "precision", "recall held out", "precision", "median ms")
    print_table(head, rows)


def _row(score: Score) -> tuple[str, ...]:
    held = score.held_out()
    apart = (f"{held.recall:.3f}", f"{held.precision:.3f}") if held.answers else ("—", "—")
    counts = str(score.right), str(score.wrong), str(score.missing)
    return (*counts, f"{score.recall:.3f}", f"{score.precision:.3f}", *apart)


def figures_of(scores: dict[str, Score]) -> dict[str, float]:
    figures = {}
    for kind, whole in scores.items():
        held = whole.held_out()
        figures[f"{kind}_recall"] = round(whole.recall, 4)
        figures[f"{kind}_precision"] = round(whole.precision, 4)
        figures[f"{kind}_recall_held_out"] = round(held.recall, 4)
        figures[f"{kind}_precision_held_out"] = round(held.precision, 4)
        figures[f"{kind}_ms"] = round(whole.milliseconds_a_page, 1)
    return figures


def cpu_of_real_pages() -> float:
    """Median CPU milliseconds of a product page as shops send it, read as a reader does at its first attempt."""
    times = []
    care.is_needed = False
    for path in sorted((DATA / "products-2021").glob("*.html.gz")):
        body = gzip.decompress(path.read_bytes())
        began = time.process_time()
        read_page(body, UNSAID, base.read)
        times.append((time.process_time() - began) * 1_000)
    care.is_needed = True
    return statistics.median(times)


def robots() -> tuple[int, int]:
    facts = json.loads((DATA / "robots" / "google_robotstxt_cases.json").read_text())
    right = sum(
        RobotsRules(fact["robots_txt"], fact["user_agent"]).allows(fact["url"]) == fact["allowed"] for fact in facts
    )
    return right, len(facts)


if __name__ == "__main__":
    main(parse(__doc__ or ""))
