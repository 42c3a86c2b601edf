"""Pages that are requested as another kind than they are: each must be refused, whatever values it seems to have."""

from bench.support.data_set import pages, read
from bench.support.held_out import is_held_out

_ASKED = {
    "job_posting": ("company", "product", "listing", "profile"),
    "listing": ("company", "product", "job", "profile"),
    "product": ("company", "job", "profile"),
}
"""Extractor, and the kinds of page that it must refuse. Some portals mark homes as products: these are not asserted. A
page of any kind may be on a company's site."""


def refused() -> dict[str, float]:
    """The share of pages that each extractor refuses, of those of other kinds: of all, and of the held-out third."""
    figures = {}
    for asked, kinds in _ASKED.items():
        verdicts = [(is_held_out(name), _is_refused(asked, body)) for kind in kinds for name, body, _ in pages(kind)]
        held = [right for is_held, right in verdicts if is_held]
        figures[f"{asked}_refused"] = round(sum(right for _, right in verdicts) / max(1, len(verdicts)), 4)
        figures[f"{asked}_refused_held_out"] = round(sum(held) / max(1, len(held)), 4)
    return figures


def _is_refused(asked: str, body: bytes) -> bool:
    extracted = read(asked, body, None).extracted
    return extracted.kind != "item" or extracted.wall is not None
