"""Which of several prices in a page's markup holds. Pure.

Markup contradicts itself: JSON-LD that has the list price while the meta tags have the sale price, or a range over all
variants beside the price of the one that is shown.
"""

from decimal import Decimal

from forager.extract.products.findings import Findings

DEEPEST_SALE = Decimal("0.2")
"""A price below this share of another one belongs to something else: a part, a month's instalment, a sample."""


def choose_price(findings: Findings) -> None:
    """Let the price hold that a buyer pays: a single price before the low end of a range; of two in the same currency
    the lower one, the other being the price before a discount."""
    if len({offered.amount for offered in findings.prices}) < 2:
        return
    best = next((offered for offered in findings.prices if not offered.lowest), findings.prices[0])
    for offered in findings.prices:
        same = offered.currency in (None, best.currency) and not offered.lowest
        if same and best.amount * DEEPEST_SALE <= offered.amount < best.amount:
            findings.metadata.setdefault("regular_price", str(best.amount))
            best = offered
    if best.amount != findings.get("price"):
        findings.hold_price(best)
