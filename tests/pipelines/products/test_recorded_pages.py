"""Each directory beside this file is a case: `inputs/` is a product page with its URL, `output.json` what we read.

The pages are written for these tests, with the structure that shops' pages have; the firms and products do not exist.
"""

import json
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from forager.extract.html.document import Document
from forager.extract.products.findings import SUREST, UNSEEN, ProductFindings, confidence_of, says_missing
from forager.extract.products.parser import Parser
from forager.pipelines.products.wiring import parsers

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/output.json"))


@cache
def read(case: str) -> tuple[Parser, ProductFindings, str | None]:
    """The parser of a case, what it finds, and the words by which the page shows that it has no product."""
    url = json.loads((HERE / case / "inputs" / "target.json").read_text())["url"]
    document = Document((HERE / case / "inputs" / "page.html").read_bytes(), url)
    parser = parsers().for_url(url)
    return parser, parser.read(document), says_missing(document)


def as_json(parser: Parser, findings: ProductFindings, missing: str | None) -> dict[str, Any]:
    """In the form of `output.json`."""
    return {
        "parser": parser.name,
        "is_product": findings.is_product,
        "missing": missing,
        "values": {
            name: str(each.value) if isinstance(each.value, Decimal) else each.value
            for name, each in findings.values.items()
        },
        "sources": {name: each.source for name, each in findings.values.items()},
        "metadata": findings.metadata,
        "images": [{"url": image.url, "alt": image.alt, "type": image.kind} for image in findings.images],
        "refused": [list(each) for each in findings.refused],
    }


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_page_is_read_as_expected__PR_10(case: str) -> None:
    assert as_json(*read(case)) == json.loads((HERE / case / "output.json").read_text())


@pytest.mark.parametrize("case", CASES)
def test_every_value_has_the_confidence_of_its_source_or_more__PR_15(case: str) -> None:
    for name, value in read(case)[1].values.items():
        # The page may not show these.
        least = confidence_of(value.source, name) * (UNSEEN if name in ("sku", "brand", "price") else 1)
        assert least <= value.confidence <= SUREST


def test_there_are_enough_cases_of_each_parser__PR_10() -> None:
    read_by = Counter(read(case)[0].name for case in CASES)
    assert len(CASES) >= 40
    assert read_by["amazon"] >= 8
