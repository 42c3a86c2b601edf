"""Confidence of an extractor's values: sources that disagree, and values that are not sure enough."""

from datetime import UTC, datetime

from forager.core.http import Response
from forager.pipelines.scrape.extractor import GUESS, LABEL, SELECTOR, Extracted, FieldFindings, FieldFound
from forager.pipelines.scrape.extractors.job_posting import job_posting
from forager.pipelines.scrape.extractors.product import product
from forager.pipelines.scrape.job import ScrapeTask
from forager.pipelines.scrape.steps import Reading, read_page

AT = datetime(2026, 1, 1, tzinfo=UTC)
RESPONSE = Response("https://kiln.example/jobs/1", 200, {}, b"", AT, 1)


def test_reliable_sources_that_disagree_lower_the_confidence_and_are_both_shown() -> None:
    findings = FieldFindings(frozenset({"company_name"}))
    findings.offer("company_name", "Kiln Works", "label:company", LABEL)
    findings.offer("company_name", "Oven Works", "css:.company", SELECTOR)
    found = findings.extracted("posting_url", None).fields["company_name"]
    assert (found.value, found.also) == ("Oven Works", (("Kiln Works", "label:company"),))
    assert found.confidence < LABEL


def test_a_guess_or_a_longer_form_does_not_make_a_value_less_sure() -> None:
    findings = FieldFindings(frozenset({"company_name"}))
    findings.offer("company_name", "Kiln Works", "css:.company", SELECTOR)
    findings.offer("company_name", "Oven Works", "text", GUESS)
    findings.offer("company_name", "Kiln Works Ltd.", "label:company", LABEL)
    found = findings.extracted("posting_url", None).fields["company_name"]
    assert (found.value, found.confidence, found.also) == ("Kiln Works", SELECTOR, ())


def test_values_that_are_not_sure_enough_are_null() -> None:
    reading = Reading(job_posting, None, min_confidence=0.7)
    reading.add(
        RESPONSE,
        Extracted({"job_title": FieldFound("Baker", "css:h1", 0.85), "company_name": FieldFound("Kiln", "text", 0.55)}),
    )
    task = ScrapeTask(
        number=0, target_type="job_posting", target_url=RESPONSE.url, workspace_id="w", min_confidence=0.7
    )
    result = reading.result(task)
    assert (result.result["job_title"], result.result["company_name"]) == ("Baker", None)
    assert set(result.provenance) == {"job_title"}


def test_the_other_price_of_a_product_is_shown_with_its_source__PR_15() -> None:
    html = (
        '<meta property="product:price:amount" content="99.00"><meta property="product:price:currency" content="EUR">'
        '<script type="application/ld+json">{"@type": "Product", "name": "Ida", "offers": {"price": "129.00",'
        ' "priceCurrency": "EUR"}}</script>'
    )
    reading = Reading(product, ("price",))
    page = Response("https://shop.example/p/1", 200, {}, html.encode(), AT, 1)
    body, parse, _, url, status, at, wanted, *_ = reading.question(page)
    reading.add(page, read_page(body, parse, "text/html", url, status, at, wanted))
    task = ScrapeTask(
        number=0, target_type="product", target_url=page.url, requested_fields=("price",), workspace_id="w"
    )
    told = reading.result(task).provenance["price"]
    assert told["also"] == [{"value": "129.00", "source": "json-ld:Product"}]
