"""Each directory of this folder is a case: `inputs/` is a page and its request, `output.json` the expected result.

The pages are written for these tests, in the layouts that public pages have; the people and firms on them do not exist.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from forager.core.http import Click, Scroll, WaitFor
from forager.extract.text.normalise import normalise
from forager.pipelines.scrape.extractor import MOST_MORE, Extracted, Extractor, PageInput
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.job import CONSENT

HERE = Path(__file__).parent
CASES = sorted(path.parent.name for path in HERE.glob("*/output.json"))
BY_NAME = {extractor.name: extractor for extractor in EXTRACTORS}
AT = datetime(2026, 3, 4, 9, 0, 0, tzinfo=UTC)


def target_of(case: str) -> dict[str, Any]:
    return dict(json.loads((HERE / case / "inputs" / "target.json").read_text()))


def expected_of(case: str) -> dict[str, Any]:
    return dict(json.loads((HERE / case / "output.json").read_text()))


def read(case: str) -> tuple[Extractor, Extracted]:
    target = target_of(case)
    extractor = BY_NAME[target["extractor"]]
    body = next((HERE / case / "inputs").glob("page.*")).read_bytes()
    wanted = frozenset(target.get("requested_fields", extractor.fields))
    return extractor, extractor.parse(PageInput(target["url"], body, 200, AT), wanted)


@pytest.mark.parametrize("case", CASES)
def test_a_recorded_page_is_read_as_expected__SC_10(case: str) -> None:
    extractor, extracted = read(case)
    normalised = normalise(extractor.output, {name: found.value for name, found in extracted.fields.items()})
    expected = expected_of(case)
    assert normalised.result.model_dump() == expected["result"]
    assert normalised.dropped == {}
    assert (extracted.wall, list(extracted.more)) == (expected["wall"], expected["more"])
    assert {name: found.source for name, found in extracted.fields.items()} == expected["sources"]


def test_there_are_enough_cases_of_each_kind() -> None:
    kinds = Counter(target_of(case)["extractor"] for case in CASES)
    assert len(CASES) >= 30
    assert min(kinds[extractor.name] for extractor in EXTRACTORS) >= 6


@pytest.mark.parametrize("case", [case for case in CASES if "wall" in case])
def test_a_login_wall_is_reported_without_any_field__SC_10(case: str) -> None:
    _, extracted = read(case)
    assert extracted.wall
    assert extracted.fields == {}


@pytest.mark.parametrize("case", CASES)
def test_every_field_has_its_source_and_its_confidence(case: str) -> None:
    _, extracted = read(case)
    for found in extracted.fields.values():
        assert found.source.partition(":")[0] in (
            "json-ld", "microdata", "rdfa", "meta", "css", "label", "text", "title", "json", "copyright", "url",
        )  # fmt: skip
        assert 0 < found.confidence <= 1


@pytest.mark.parametrize("extractor", EXTRACTORS, ids=lambda one: one.name)
def test_a_visit_waits_and_scrolls_within_bounds_and_gets_past_consent__SC_10(extractor: Extractor) -> None:
    waits = [action for action in extractor.script if isinstance(action, WaitFor)]
    scrolls = [action for action in extractor.script if isinstance(action, Scroll)]
    assert waits
    assert all(wait.timeout <= 10.0 for wait in waits)
    assert all(scroll.times <= 5 for scroll in scrolls)
    assert any(isinstance(action, Click) and action.selector == CONSENT for action in extractor.script)


def test_a_company_page_proposes_few_pages_of_its_own_site_and_only_when_a_field_is_missing__SC_10() -> None:
    html = "".join(f'<a href="/{name}">{name}</a>' for name in ("contact", "contact-2", "about", "imprint", "jobs"))
    html += '<a href="https://other.example/contact">Contact</a><meta property="og:site_name" content="Kiln">'
    company = BY_NAME["company_website"]
    page = PageInput("https://kiln.example/", html, 200, AT)
    more = company.parse(page, company.fields).more
    assert more == ("https://kiln.example/contact", "https://kiln.example/about", "https://kiln.example/imprint")
    assert len(more) <= MOST_MORE
    assert company.parse(page, frozenset({"company_name"})).more == ()


def test_only_a_linkedin_profile_requires_a_login_of_the_workspace__SC_12() -> None:
    assert {one.name: one.credentials for one in EXTRACTORS if one.credentials} == {"linkedin_profile": "linkedin"}


def test_the_urls_of_pages_alone_do_not_make_an_empty_page_look_full() -> None:
    for extractor in EXTRACTORS:
        page = PageInput("https://shell.example/x", "<html><body><div id=root></div></body></html>", 200, AT)
        assert extractor.parse(page, extractor.fields).fields == {}
