"""Recognising profiles of a person: every page has a headline, so the page itself must mark it as a name."""

from datetime import UTC, datetime

import pytest

from forager.pipelines.scrape.extractor import Extracted, PageInput
from forager.pipelines.scrape.extractors.linkedin_profile import linkedin_profile

PROSE = "<p>" + "Builds bridges, and writes about those of others. " * 5 + "</p>"
AT = datetime(2026, 3, 4, tzinfo=UTC)


def parse(head: str, headline: str = "Ann Lee", url: str = "https://www.linkedin.com/in/ann-lee") -> Extracted:
    html = f"<head>{head}</head><body><h1>{headline}</h1>{PROSE}</body>"
    return linkedin_profile.parse(PageInput(url, html, 200, AT), linkedin_profile.fields)


def json_ld(data: str) -> str:
    return f'<script type="application/ld+json">{data}</script>'


@pytest.mark.parametrize(
    "head",
    [
        "<title>Ann Lee | LinkedIn</title>",
        '<meta property="og:title" content="Ann Lee | LinkedIn">',
        '<meta property="og:type" content="profile">',
        json_ld('{"@type": "ProfilePage", "mainEntity": {"@type": "Person", "name": "Ann Lee"}}'),
        json_ld('{"@type": "ProfilePage"}'),
        json_ld('{"@type": "WebPage", "about": {"@type": "Person", "name": "Ann Lee"}}'),
    ],
)
def test_a_headline_that_the_page_calls_a_persons_name_makes_a_profile(head: str) -> None:
    extracted = parse(head)
    assert (extracted.kind, extracted.fields["name"].value) == ("item", "Ann Lee")


def test_the_person_of_a_profile_page_is_its_name_whatever_the_headline_is() -> None:
    data = '{"@type": "ProfilePage", "mainEntity": {"@type": "Person", "name": "Ann Lee"}}'
    assert parse(json_ld(data), "Welcome").fields["name"].value == "Ann Lee"


def test_a_name_that_begins_like_a_word_for_logging_in_is_a_name() -> None:
    extracted = parse("<title>Logan Signer | LinkedIn</title>", "")
    assert (extracted.kind, extracted.fields["name"].value) == ("item", "Logan Signer")


@pytest.mark.parametrize(
    ("head", "url"),
    [
        ("<title>Bridges of the north</title>", "https://paper.example/1"),
        (json_ld('{"@type": "Article", "author": {"@type": "Person", "name": "Ann Lee"}}'), "https://paper.example/1"),
        (json_ld('{"@type": "JobPosting", "title": "Bridge builder"}'), "https://www.linkedin.com/jobs/view/1"),
        ("<title>Kiln hiring Bridge builder in Leeds | LinkedIn</title>", "https://www.linkedin.com/jobs/view/1"),
        ("<title>Kiln | LinkedIn</title>", "https://www.linkedin.com/company/kiln"),
    ],
)
def test_the_headline_of_an_article_a_job_or_a_company_is_not_a_name(head: str, url: str) -> None:
    assert parse(head, "Bridge builder", url).kind == "other"
