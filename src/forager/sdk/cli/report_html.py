"""Pieces of a self-contained HTML report: charts, a map, cards and tables, as text.

Everything that comes from outside is escaped here, in one place: a scraped name can hold markup. The page loads
nothing: no script, no font, no picture from elsewhere, and its content policy forbids them.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import cos, radians
from typing import Any

STARS = ("1", "2", "3", "4", "5")


def text(value: Any) -> str:
    """Escape a value for HTML; `–` for none."""
    return "–" if value is None or value == "" else escape(str(value), quote=True)


def section(title: str, *parts: str, note: str = "") -> str:
    remark = f'<p class="note">{text(note)}</p>' if note else ""
    return f"<section><h2>{text(title)}</h2>{remark}{''.join(parts)}</section>"


def tiles(figures: Iterable[tuple[str, str]]) -> str:
    """Large figures in a row."""
    cells = "".join(f'<div class="tile"><b>{text(value)}</b><span>{text(name)}</span></div>' for name, value in figures)
    return f'<div class="tiles">{cells}</div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> str:
    def cells(row: Sequence[Any]) -> str:
        return "".join(
            f"<td{' class=r' if name in right else ''}>{text(value)}</td>"
            for name, value in zip(columns, row, strict=True)
        )

    heads = "".join(f"<th{' class=r' if name in right else ''}>{text(name) if name else ''}</th>" for name in columns)
    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def columns_chart(values: Sequence[tuple[str, float]], *, label: str) -> str:
    """Vertical bars with a value above and a name below each of them."""
    most = max((value for _, value in values), default=0) or 1
    bars = "".join(
        f'<div class="col"><i>{text(f"{value:,.0f}")}</i><span style="height:{max(1, round(100 * value / most))}px">'
        f"</span><em>{text(name)}</em></div>"
        for name, value in values
    )
    return f'<div class="cols" role="img" aria-label="{text(label)}">{bars}</div>'


def line_chart(points: Sequence[tuple[float, float]], *, label: str, marks: Sequence[tuple[float, str]] = ()) -> str:
    """Return a line over time. `points` are (seconds, value); `marks` are vertical lines with a caption."""
    if len(points) < 2:
        return ""
    width, height, foot = 720, 150, 22
    last, most = max(points[-1][0], 0.001), max(value for _, value in points) or 1

    def x(moment: float) -> float:
        return round(width * moment / last, 1)

    line = " ".join(f"{x(at)},{round(height - (height - 26) * value / most, 1)}" for at, value in points)
    drawn = "".join(
        f'<line class="mark" x1="{x(at)}" x2="{x(at)}" y1="0" y2="{height}"/>'
        f'<text class="marked" x="{min(x(at) + 4, width - 150)}" y="18">{text(caption)}</text>'
        for at, caption in marks
    )
    ticks = "".join(
        f'<text x="{min(width - 24, round(width * n / 4))}" y="{height + 16}">{last * n / 4:.0f} s</text>'
        for n in range(5)
    )
    return (
        f'<svg class="chart" viewBox="0 0 {width} {height + foot}" role="img" aria-label="{text(label)}">'
        f'<polygon class="area" points="{x(points[0][0])},{height} {line} {width},{height}"/>'
        f'<polyline points="{line}"/>{drawn}{ticks}'
        f'<text class="most" x="4" y="18">{most:,.0f}</text></svg>'
    )


def spark(values: Sequence[float]) -> str:
    """Return a small step line of a price or a rent, oldest first."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    span, width, height = (high - low) or 1, 96, 26
    step = width / len(values)
    points: list[str] = []
    for n, value in enumerate(values):
        y = round(height - 3 - (height - 6) * (value - low) / span, 1)
        points += [f"{round(n * step, 1)},{y}", f"{round((n + 1) * step, 1)},{y}"]
    trend = "up" if values[-1] > values[0] else "down" if values[-1] < values[0] else "flat"
    label = text(" → ".join(f"{value:g}" for value in values))
    return (
        f'<svg class="spark {trend}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f'<polyline points="{" ".join(points)}"/></svg>'
    )


def point_map(points: Sequence[Mapping[str, Any]], *, label: str) -> str:
    """Points by `latitude` and `longitude`, with `title` as their tooltip and `share` (0 to 1) as their colour."""
    placed = [each for each in points if each.get("latitude") is not None and each.get("longitude") is not None]
    if not placed:
        return '<p class="note">No coordinates.</p>'
    south, north = _around([float(each["latitude"]) for each in placed])
    west, east = _around([float(each["longitude"]) for each in placed])
    width = 720.0
    squeeze = max(0.2, cos(radians((south + north) / 2)))
    height = round(min(460.0, max(220.0, width * (north - south) / ((east - west) * squeeze))), 1)

    def spot(each: Mapping[str, Any]) -> str:
        x = round(width * (float(each["longitude"]) - west) / (east - west), 1)
        y = round(height * (north - float(each["latitude"])) / (north - south), 1)
        share = each.get("share")
        hue = "" if share is None else f' style="--share:{round(100 * float(share))}%"'
        return f'<circle cx="{x}" cy="{y}" r="2.5"{hue}><title>{text(each.get("title"))}</title></circle>'

    grid = "".join(
        f'<line x1="0" x2="{width}" y1="{round(height * n / 4, 1)}" y2="{round(height * n / 4, 1)}"/>'
        f'<line y1="0" y2="{height}" x1="{round(width * n / 4, 1)}" x2="{round(width * n / 4, 1)}"/>'
        for n in range(1, 4)
    )
    corner = f"{north:.1f}° N, {abs(west):.1f}° {'W' if west < 0 else 'E'}"
    # The best are drawn last, so that they lie above the others.
    placed.sort(key=lambda each: -1.0 if each.get("share") is None else float(each["share"]))
    return (
        f'<svg class="map" viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}"><g class="grid">{grid}'
        f'</g>{"".join(map(spot, placed))}<text x="6" y="14">{text(corner)}</text></svg>'
    )


def cards(items: Iterable[Mapping[str, Any]]) -> str:
    """Cards with `title`, `lines`, `badge` (text, colour) and `chart` (HTML from this module)."""
    drawn = []
    for each in items:
        badge_text, colour = each.get("badge") or ("", "")
        badge = f'<span class="badge {text(colour)}">{text(badge_text)}</span>' if badge_text else ""
        lines = "".join(f"<p>{text(line)}</p>" for line in each.get("lines", ()))
        drawn.append(f"<article>{badge}<h3>{text(each['title'])}</h3>{lines}{each.get('chart') or ''}</article>")
    return f'<div class="cards">{"".join(drawn)}</div>'


def page(title: str, lead: str, *sections: str) -> str:
    """Return the whole document."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light'
        f' dark"><title>{text(title)}</title><style>{_STYLE}</style></head><body><main><header><h1>{text(title)}</h1>'
        f"<p>{text(lead)}</p></header>{''.join(sections)}</main></body></html>\n"
    )


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Return the range of values with a margin, never empty."""
    low, high = min(values), max(values)
    margin = max(0.01, (high - low) * 0.05)
    return low - margin, high + margin


_STYLE = """
:root{--bg:#fbfaf7;--card:#fff;--ink:#1d2420;--soft:#5d6a62;--line:#e2e2da;--accent:#2f7d4f;--warm:#b4552d;
--cool:#2f6d9c;--dot:#cfcfc4}
@media(prefers-color-scheme:dark){:root{--bg:#131714;--card:#1c221e;--ink:#e8ece8;--soft:#9aa79f;--line:#313a34;
--accent:#63c08a;--warm:#e58a5c;--cool:#74b3e0;--dot:#3f4a43}}*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}h1{font-size:28px;margin:0 0 4px}
header p,.note{color:var(--soft);margin:0 0 14px}h2{font-size:19px;margin:34px 0 8px}h3{font-size:15px;margin:0 0 2px}
.tiles{display:flex;flex-wrap:wrap;gap:12px}
.tile{flex:1;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 16px;min-width:120px}
.tile b{display:block;font-size:22px}.tile span{color:var(--soft);font-size:13px}.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line);border-radius:10px}
th,td{text-align:left;padding:6px 12px;border-bottom:1px solid var(--line);font-size:14px;vertical-align:top}
th{color:var(--soft);font-weight:600}.r{text-align:right;font-variant-numeric:tabular-nums}tr:last-child td{border:0}
svg.chart,svg.map{width:100%;background:var(--card);border:1px solid var(--line);border-radius:10px;display:block}
svg text{fill:var(--soft);font-size:11px}polyline{fill:none;stroke:var(--accent);stroke-width:2}
.area{fill:var(--accent);opacity:.14}.mark{stroke:var(--warm);stroke-width:1.5;stroke-dasharray:4 3}
svg .marked{fill:var(--warm)}.grid line{stroke:var(--line)}
circle{fill:color-mix(in oklab,var(--accent) var(--share,0%),var(--dot));opacity:.8}
.cols{display:flex;gap:10px;align-items:flex-end;background:var(--card);border:1px solid var(--line);
border-radius:10px;padding:14px 16px 8px}
.col{flex:1;text-align:center;display:flex;flex-direction:column;justify-content:flex-end;min-width:24px}
.col span{background:var(--accent);border-radius:4px 4px 0 0}.col i{font-style:normal;font-size:12px}
.col em{font-style:normal;color:var(--soft);font-size:12px}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:12px}
article{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:12px 14px;position:relative}
article p{margin:0;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
.badge{float:right;font-size:11px;border-radius:99px;padding:1px 8px;border:1px solid currentColor;margin-left:6px}
.green{color:var(--accent)}.yellow,.orange{color:var(--warm)}.red{color:#c0392b}.gray,.grey{color:var(--soft)}
.cols+.scroll,.scroll+.cols,.cols+.cols{margin-top:12px}
@media(max-width:600px){svg.chart text,svg.map text{font-size:22px}th,td{padding:5px 8px;font-size:13px}}
svg.spark{width:96px;height:26px;margin-top:4px}.spark.up polyline{stroke:var(--warm)}
.spark.down polyline{stroke:var(--cool)}
code{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:1px 6px;font-size:13px}
"""
