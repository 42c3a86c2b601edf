"""`make bench` publishes what it has measured: a page, charts, and five rows of the README."""

import pytest

from bench.support.published import BEGIN, CHARTS, END, ROWS, page, svg, with_rows

RUN = {"at": "2026-03-14", "minutes": 2.5, "on": "2 processors, Linux, Python 3.11.7", "peers": ["pgqueuer==1.6.0"]}
TARGETS = {"vs_pgqueuer": {"is": "≥ 2.5", "held": True, "decides": True}}
LEDGER = {
    "name": "ledger",
    "ok": True,
    "sqlite_per_s": 61_234,
    "postgres_per_s": 25_600,
    "pgqueuer_per_s": 3_000,
    "vs_pgqueuer": 8.53,
    "machine": "quiet",
    "core_share": 0.97,
    "targets": TARGETS,
    "run": RUN,
}
GROWTH = {"name": "growth", "ok": True, "sqlite_loss": -0.02, "postgres_loss": 0.08, "run": RUN}


def test_the_page_has_figures_targets_machine_and_peers_and_drops_what_was_measured_earlier() -> None:
    earlier = "| old ledger | 1 | | `make bench NAME=ledger` |\n| old pull | 2 | | `make bench NAME=pull` |"
    text = page({"ledger": LEDGER}, earlier, {"ledger": "no-op tasks"})
    assert "| [ledger](#ledger) | held | 2026-03-14 | quiet |" in text
    assert "| `vs_pgqueuer` | 8.53 | ≥ 2.5 | held |" in text
    assert "| `sqlite_per_s` | 61,234 |  |  |" in text
    assert "Peers: pgqueuer 1.6.0." in text
    assert "`make bench NAME=ledger`" in text
    assert "core_share" not in text
    assert "old pull" in text
    assert "old ledger" not in text


def test_a_chart_has_a_bar_for_each_measured_side_as_long_as_its_figure() -> None:
    text = svg(CHARTS["ledger"], LEDGER)
    assert text.count("<rect") == 2, "procrastinate was not measured"
    assert 'class="own" x="150" y="28" width="400.0"' in text
    assert f'width="{3_000 / 25_600 * 400:.1f}"' in text


def test_rows_of_the_readme_come_from_results_and_stay_where_there_is_none() -> None:
    rows = "\n".join(f"| {row.words} | as it was | |" for row in ROWS)
    readme = f"before\n{BEGIN}\n| what | SQLite | PostgreSQL |\n|---|---|---|\n{rows}\n{END}\nafter\n"
    text = with_rows(readme, {"ledger": LEDGER, "growth": GROWTH})
    assert f"| {ROWS[0].words} | as it was | |" in text
    assert f"| {ROWS[1].words} | 61,234/s | 25,600/s |" in text
    assert f"| {ROWS[4].words} | none | 8 % |" in text
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert with_rows(text, {"ledger": LEDGER, "growth": GROWTH}) == text


def test_a_readme_without_a_place_for_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="around its figures"):
        with_rows("no figures here", {})
