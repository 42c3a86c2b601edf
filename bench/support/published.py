"""The published figures: `make bench` keeps the result of each benchmark in bench/results/, and writes from them
docs/benchmarks.md, its charts, and the five rows of the README. A quick run or a run of one store is not published."""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from bench.support.peers import CRAWLERS, QUEUES

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results"
EARLIER = ROOT / "bench" / "earlier.md"
ABOUT = ROOT / "bench" / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
PEERS = {"ledger": QUEUES, "crawl": CRAWLERS, "sites": CRAWLERS}
_ABOUT_RUN = frozenset({"name", "ok", "machine", "core_share", "targets", "run"})

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Chart:
    """A bar for each side of a comparison."""

    title: str
    bars: Mapping[str, str]
    """Maps the name of a bar to the key of its figure."""
    against: float | None = None
    """The value of the bar "Forager", where figures are ratios to it."""


CHARTS: Mapping[str, Chart] = {
    "ledger": Chart(
        "No-op tasks a second, one process, PostgreSQL",
        {"Forager": "postgres_per_s", "pgqueuer": "pgqueuer_per_s", "procrastinate": "procrastinate_per_s"},
    ),
    "crawl": Chart(
        "Times as fast as the peer, 5,000 product pages",
        {
            "Scrapy": "vs_scrapy",
            "Scrapy, JOBDIR": "vs_scrapy_jobdir",
            "Crawlee": "vs_crawlee",
            "Crawlee, in memory": "vs_crawlee_memory",
            "Scrapy, real pages": "real_vs_scrapy",
        },
        against=1.0,
    ),
    "sites": Chart("Share of useful pages", {"Forager": "useful_share", "Scrapy": "scrapy_useful_share"}),
    "markdown": Chart(
        "Word F1 of the main text, sites that are held out",
        {
            "Forager": "f1_held_out",
            "trafilatura": "trafilatura_f1_held_out",
            "Forager, articles": "f1_article_held_out",
            "trafilatura, articles": "trafilatura_f1_article_held_out",
        },
    ),
    "scale": Chart("No-op tasks a second", {"Forager": "ours_per_s", "Celery": "celery_per_s"}),
}


@dataclass(frozen=True)
class Row:
    """A row of the README: words, and a text for each store made of the figures of one benchmark."""

    words: str
    name: str
    sqlite: str
    postgres: str = ""


ROWS = (
    Row(
        "1,232 queries to an API of 1 s latency at 300/s, as a share of the physical bound",
        "pull",
        "{sqlite_ratio:.3f}",
        "{postgres_ratio:.3f}",
    ),
    Row(
        "no-op tasks through submit → lease → settle, one process",
        "ledger",
        "{sqlite_per_s:,.0f}/s",
        "{postgres_per_s:,.0f}/s",
    ),
    Row(
        "5,000 product pages: pages a second against Scrapy / Scrapy with JOBDIR / Crawlee",
        "crawl",
        "{vs_scrapy:.1f} × / {vs_scrapy_jobdir:.1f} × / {vs_crawlee:.1f} ×",
    ),
    Row("overhead of a page on demand over fetching it directly, median", "scrape", "{overhead_p50_ms:.1f} ms"),
    Row("slowdown of the ledger with 1,000,000 finished tasks", "growth", "{sqlite_loss:.0%}", "{postgres_loss:.0%}"),
)


def keep(name: str, result: Result, seconds: float) -> None:
    """Keep the result of a benchmark, and write everything that is published again."""
    RESULTS.mkdir(exist_ok=True)
    peers = [each for each in PEERS[name].pinned if "==" in each][:4] if name in PEERS else []
    run = {"at": f"{datetime.now(UTC):%Y-%m-%d}", "minutes": round(seconds / 60, 1), "on": machine(), "peers": peers}
    text = json.dumps({**result, "run": run}, indent=1, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
    publish()


def results() -> dict[str, Result]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("*.json"))}


def publish() -> None:
    """Write the page, its charts and the rows of the README from what is kept."""
    kept = results()
    for name, chart in CHARTS.items():
        if name in kept:
            (ROOT / "docs" / "images" / f"bench-{name}.svg").write_text(svg(chart, kept[name]), encoding="utf-8")
    PAGE.write_text(page(kept, EARLIER.read_text("utf-8"), abouts(ABOUT.read_text("utf-8"))), encoding="utf-8")
    README.write_text(with_rows(README.read_text("utf-8"), kept), encoding="utf-8")


def machine() -> str:
    model = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        model = f" ({' '.join(found[1].split())})" if found else ""
    return f"{os.cpu_count()} processors{model}, {platform.system()}, Python {platform.python_version()}"


def abouts(text: str) -> dict[str, str]:
    """Return what each benchmark measures, from the table of bench/README.md."""
    return dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", text, re.MULTILINE))


def page(kept: Mapping[str, Result], earlier: str, about: Mapping[str, str]) -> str:
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`, from bench/results. Each section has the command that measures it again;",
        "[bench/README.md](../bench/README.md) explains how to read the figures. Ratios are taken inside one round, in",
        "which both sides met the same machine. On a busy machine, figures per second are shown and do not decide.",
        "",
    ]
    if kept:
        lines += ["| benchmark | targets | measured | machine |", "|---|---|---|---|"]
    for name, result in kept.items():
        verdict = "held" if result["ok"] else "missed"
        lines.append(f"| [{name}](#{name}) | {verdict} | {result['run']['at']} | {result.get('machine', '')} |")
    for name, result in kept.items():
        lines += ["", *_section(name, result, about.get(name, ""))]
    rest = [row for row in earlier.splitlines() if (found := re.search(r"NAME=(\w+)", row)) and found[1] not in kept]
    if rest:
        lines += ["", "## Measured before results were kept", ""]
        lines += ["On two shared virtual cores. A row goes when its benchmark runs.", ""]
        lines += ["| what | SQLite | PostgreSQL | command |", "|---|---|---|---|", *rest]
    return "\n".join(lines) + "\n"


def _section(name: str, result: Result, about: str) -> Iterator[str]:
    run, targets = result["run"], result.get("targets", {})
    yield from (f"## {name}", "", *wrap(f"{about[:1].upper()}{about[1:]}.", 120), "", f"`make bench NAME={name}`")
    yield from ("", f"{run['on']}; {run['minutes']:g} min on {run['at']}.")
    if run["peers"]:
        yield f"Peers: {', '.join(each.replace('==', ' ') for each in run['peers'])}."
    if name in CHARTS:
        yield from ("", f"![{CHARTS[name].title}](images/bench-{name}.svg)")
    yield from ("", "| figure | measured | target | |", "|---|---|---|---|")
    for key, value in result.items():
        if key not in _ABOUT_RUN and isinstance(value, int | float):
            target = targets.get(key)
            mark = "" if target is None else "held" if target["held"] else "missed"
            yield f"| `{key}` | {value:,g} | {target['is'] if target else ''} | {mark} |"


def svg(chart: Chart, result: Result) -> str:
    """Return a chart of horizontal bars. Bars whose figure was not measured are left out."""
    bars = {label: float(result[key]) for label, key in chart.bars.items() if key in result}
    if chart.against is not None:
        bars = {"Forager": chart.against, **bars}
    most, left, width, height = max(bars.values(), default=1.0) or 1.0, 150, 400, 26
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {len(bars) * height + 36}"'
            ' role="img">'
        ),
        f"<title>{escape(chart.title)}</title>",
        (
            "<style>text { font: 13px system-ui, sans-serif; fill: #555 } .own { fill: #1a7f4b }"
            " .peer { fill: #9aa4b2 }"
            " @media (prefers-color-scheme: dark) { text { fill: #bbb } }</style>"
        ),
        f'<text x="0" y="16">{escape(chart.title)}</text>',
    ]
    for place, (label, value) in enumerate(bars.items()):
        top = 28 + place * height
        kind = "own" if label.startswith("Forager") else "peer"
        parts += [
            f'<text x="{left - 8}" y="{top + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect class="{kind}" x="{left}" y="{top}" width="{value / most * width:.1f}" height="20" rx="2"/>',
            f'<text x="{left + value / most * width + 6:.1f}" y="{top + 15}">{value:,g}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def with_rows(readme: str, kept: Mapping[str, Result]) -> str:
    """Return the README with its five figures from what is kept. A row without a result stays as it is."""
    before, begin, rest = readme.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no lines {BEGIN!r} and {END!r} around its figures.")
    present = {line.split("|")[1].strip(): line for line in old.splitlines() if line.count("|") > 3}
    return f"{before}{begin}\n{_rows(present, kept)}\n{end}{after}"


def _none_if_less(text: str) -> str:
    """A loss that came out below nothing is none."""
    return "none" if text.startswith("-") or text == "0%" else text.replace("%", " %")


def _rows(present: Mapping[str, str], kept: Mapping[str, Result]) -> str:
    lines = ["| what | SQLite | PostgreSQL |", "|---|---|---|"]
    for row in ROWS:
        texts: Sequence[str] | None = None
        if row.name in kept:
            try:
                texts = [_none_if_less(text.format(**kept[row.name])) for text in (row.sqlite, row.postgres)]
            except KeyError:  # of one store only
                texts = None
        lines.append(present[row.words] if texts is None else f"| {row.words} | {texts[0]} | {texts[1]} |")
    return "\n".join(lines)
