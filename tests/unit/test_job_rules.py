"""Reading job postings: one small page or answer for each rule, and pages that are not postings."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from forager.extract.text.normalise import normalise
from forager.extract.text.salaries import salary_in, salary_of
from forager.pipelines.scrape.extractor import Extracted, PageInput
from forager.pipelines.scrape.extractors.job_posting import job_posting
from forager.pipelines.scrape.extractors.posting_page import _CITY
from tests.support.cpu_time import cpu_ns

AT = datetime(2026, 1, 1, tzinfo=UTC)
PROSE = "<p>" + "You bake bread with us, full-time and for a fair wage. To apply, come early. " * 8 + "</p>"
LINKS = "".join(f'<a href="/jobs/{number}-baker-{number}">Baker {number}</a>' for number in range(100, 108))


def extract(html: str, url: str = "https://kiln.example.com/jobs/1") -> Extracted:
    return job_posting.parse(PageInput(url, html, 200, AT), job_posting.fields)


def read(html: str, url: str = "https://kiln.example.com/jobs/1") -> dict[str, Any]:
    found = extract(html, url).fields
    return normalise(job_posting.output, {name: one.value for name, one in found.items()}).result.model_dump()


@pytest.mark.parametrize(
    ("html", "kind"),
    [
        (f"<title>Jobs at Kiln</title><h1>Open positions</h1>{LINKS}", "list"),
        (f"<h1>Careers</h1>{LINKS}<p>{'x' * 200}</p>", "list"),
        ("<h1>Job not found</h1><p>" + "Try another search, or come back later. " * 5 + "</p>", "error"),
        ("<h1>Baker</h1><p>This position has been filled.</p><p>" + "Thank you for your interest in us. " * 5, "error"),
        (
            "<h1>Apply now</h1><form><input name=first_name><input name=last_name><input name=resume type=file></form>"
            "<p>" + "Please fill in all of the fields below, one by one. " * 5,
            "form",
        ),
        ("<div id=root></div>", "empty"),
        ("<h1>About us</h1>" + PROSE, "other"),
        (f"<h1>Baker</h1><p>Location: Leeds, United Kingdom</p>{PROSE}{LINKS}", "item"),
        ('<script>var all = {"jobs": [{"title": "A", "city": "B"}, {"title": "C", "city": "D"}]};</script>', "list"),
    ],
)  # fmt: skip
def test_a_page_that_is_not_a_job_is_reported_with_its_kind(html: str, kind: str) -> None:
    extracted = extract(html)
    assert extracted.kind == kind
    assert bool(extracted.fields) == (kind == "item")


FIRM = "<p>Location: Leeds, United Kingdom</p><p>" + "We mend every clock in town, and sell a few. " * 20 + "</p>"
ADVERTISEMENT = "<p>Ort: Linz</p><p>" + "Wir suchen eine Verstärkung in Vollzeit. Ihre Aufgaben: Uhren. " * 9 + "</p>"


@pytest.mark.parametrize(
    ("html", "url", "kind"),
    [
        (f"<h1>Brass Clock</h1>{FIRM}<p>Price: £120</p>", "https://clocks.example/brass", "other"),
        (f"<h1>Contact us</h1>{FIRM}", "https://clocks.example/contact", "other"),
        (f"<h1>Our Clock Driver</h1>{FIRM}", "https://clocks.example/products/7", "other"),
        (f"<h1>Clock Engineer</h1>{FIRM}", "https://clocks.example/careers/7", "item"),
        (f"<h1>Uhrmacherin</h1>{ADVERTISEMENT}", "https://clocks.example/7", "item"),
        (f'<html lang="sw"><h1>Fundi wa saa</h1>{FIRM}', "https://clocks.example/7", "item"),
    ],
)
def test_a_page_is_a_job_if_it_speaks_of_one_or_its_headline_and_address_do(html: str, url: str, kind: str) -> None:
    assert extract(html, url).kind == kind


GREENHOUSE = {
    "title": "Baker", "absolute_url": "https://boards.greenhouse.io/kiln/jobs/1", "internal_job_id": 1,
    "company_name": "Kiln", "location": {"name": "Leeds, United Kingdom"}, "content": "&lt;p&gt;" + "Bake bread. " * 9,
}  # fmt: skip
LEVER = {
    "text": "Baker", "hostedUrl": "https://jobs.lever.co/kiln-works/1", "categories": {"location": "Leeds"},
    "description": "<p>Kiln Works bakes bread since the beginning of time.</p>",
    "salaryRange": {"min": 30000, "max": 40000, "currency": "GBP", "interval": "per-year-salary"},
}  # fmt: skip
ASHBY = {
    "title": "Baker", "jobUrl": "https://jobs.ashbyhq.com/Kiln/1", "descriptionHtml": "<p>" + "Bake bread. " * 9,
    "address": {"postalAddress": {"addressLocality": "Leeds", "addressCountry": "United Kingdom"}}, "location": "HQ",
}  # fmt: skip
SMART = {
    "name": "Baker", "refNumber": "R1", "company": {"identifier": "k1", "name": "Kiln"},
    "location": {"city": "Leeds", "country": "gb"},
}  # fmt: skip
WORKDAY = {
    "jobPostingInfo": {"title": "Baker", "location": "US-IL-Yorkville", "jobDescription": "Bake bread. " * 9},
    "hiringOrganization": {"name": "Kiln"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (GREENHOUSE, ("Baker", "Kiln", "Leeds", None)),
        (LEVER, ("Baker", "Kiln Works", "Leeds", "GBP 30000-40000 per year")),
        (ASHBY, ("Baker", "Kiln", "Leeds", None)),
        (SMART, ("Baker", "Kiln", "Leeds", None)),
        (WORKDAY, ("Baker", "Kiln", "Yorkville", None)),
        ({"jobs": [GREENHOUSE]}, ("Baker", "Kiln", "Leeds", None)),
    ],
)
def test_the_answer_of_a_system_is_read_by_its_own_names(answer: dict[str, Any], expected: tuple[Any, ...]) -> None:
    result = read(json.dumps(answer))
    city = (result["location"] or {}).get("city")
    assert (result["job_title"], result["company_name"], city, result["salary_range"]) == expected


def test_several_postings_are_a_list_and_one_job_in_several_places_is_not() -> None:
    assert extract(json.dumps({"jobs": [GREENHOUSE, GREENHOUSE | {"title": "Miller"}]})).kind == "list"
    assert extract(json.dumps([GREENHOUSE, GREENHOUSE | {"location": {"name": "York"}}])).kind == "item"


def test_of_several_marked_postings_the_one_in_the_headline_is_read() -> None:
    marked = [{"@type": "JobPosting", "title": title} for title in ("Miller", "Baker", "Cook")]
    script = f'<script type="application/ld+json">{json.dumps(marked)}</script>'
    assert read(f"{script}<h1>Baker</h1>{PROSE}")["job_title"] == "Baker"
    assert extract(f"{script}<h1>Jobs</h1>{PROSE}").kind == "list"


@pytest.mark.parametrize(
    ("html", "company"),
    [
        ("<title>Baker at Kiln Works | Jobpond</title><h1>Baker</h1>", "Kiln Works"),
        ('<title>Baker</title><meta property="og:site_name" content="Jobpond"><h1>Baker</h1>', None),
        ("<title>Apply now - Baker</title><h1>Baker</h1><p>© 2024 All rights reserved</p>", None),
        (f'<h1>Baker</h1><header><img alt="Kiln logo"></header><p>{"At Kiln we bake. " * 5}</p>', "Kiln"),
    ],
)  # fmt: skip
def test_the_employer_is_never_the_board_or_a_command(html: str, company: str | None) -> None:
    assert read(html + PROSE, "https://jobpond.example/1")["company_name"] == company


@pytest.mark.parametrize(
    ("text", "pay"),
    [
        ("45 000 - 60 000 Kč za měsíc", "45 000 - 60 000 Kč per month"),
        ("$120,000 - $150,000 a year", "$120,000 - $150,000 per year"),
        ("£12.50 per hour", "£12.50 per hour"),
        ("8 000 zł", "8 000 zł"),
        ("competitive", None),
        ("45.000 - 55.000 EUR brutto/Jahr", "45.000 - 55.000 EUR per year"),
        ("CHF 6'500.– pro Monat", "CHF 6'500 per month"),
        ("₹5,00,000 - ₹8,00,000 a year", "₹5,00,000 - ₹8,00,000 per year"),
        ("月給25万円～35万円", "25万円～35万円 per month"),
        ("Up to £40,000 pa", "£40,000 per year"),
        ("12 000 – 15 000 zł brutto / mies.", "12 000 – 15 000 zł per month"),
        ("35 000 kr/mån", "35 000 kr per month"),
        ("R$ 3.500,00 a R$ 4.500,00 por mês", "R$ 3.500,00 a R$ 4.500,00 per month"),
        ("28.000 - 32.000 € annui", "28.000 - 32.000 € per year"),
        ("от 100 000 до 150 000 руб.", "100 000 до 150 000 руб"),
        ("$50 and 3 weeks off", "$50"),
    ],
)
def test_pay_is_read_with_its_sign_on_either_side(text: str, pay: str | None) -> None:
    assert salary_in(text) == pay


def test_pay_in_a_sentence_needs_a_word_for_pay_and_is_no_bonus() -> None:
    page = "<h1>Baker</h1><p>Location: Leeds, United Kingdom</p>{}" + PROSE
    assert read(page.format("<p>The base pay range is $50,000 - $60,000.</p>"))["salary_range"] == "$50,000 - $60,000"
    assert read(page.format("<p>Compensation includes a bonus of $5,000.</p>"))["salary_range"] is None
    assert read(page.format("<p>We raised $50,000 for charity.</p>"))["salary_range"] is None


def test_pay_of_a_system_is_read_by_its_own_names() -> None:
    assert (
        salary_of({"min": "60000", "max": "75000", "period": "year", "currency": "EUR"}) == "EUR 60000-75000 per year"
    )
    assert (
        salary_of({"currency": "EUR", "value": {"minValue": "45.000", "maxValue": "55.000", "unitText": "Jahr"}})
        == "EUR 45000-55000 per year"
    )
    assert salary_of({"currency": "USD", "value": {"value": 25.125, "unitText": "HOUR"}}) == "USD 25.125 per hour"
    assert salary_of({"min": None, "max": None, "period": None, "currency": None}) is None


def test_who_may_apply_from_hundreds_of_countries_is_in_no_place() -> None:
    marked = {
        "@type": "JobPosting",
        "title": "Baker",
        "applicantLocationRequirements": [{"name": f"C{n}"} for n in range(9)],
    }
    assert read(f'<script type="application/ld+json">{json.dumps(marked)}</script>')["location"] is None


def test_a_description_has_no_menu_form_or_similar_jobs() -> None:
    html = (
        f"<nav>Menu here</nav><h1>Baker</h1><p>Location: Leeds, United Kingdom</p><div class=job-description>{PROSE}"
        "<form><label>Your name</label></form><p>Similar jobs</p><p>Miller</p></div>"
    )
    text = read(html)["description"]
    assert text.startswith("You bake bread")
    assert not {"Menu", "Your name", "Miller"} & set(text.split())


def _field(label: str, value: str) -> str:
    return (
        f'<tr><td><span class="Fieldlabel"><label for="{label}">{label}</label></span></td>'
        f'<td><span class="TEXT" id="{label}">{value}</span></td></tr>'
    )


@pytest.mark.parametrize("label", ["Job Title", "Position Title", "Title", "Job title/position"])
def test_a_form_of_labelled_cells_is_read_by_its_labels(label: str) -> None:
    rows = _field(label, "Oven Hand, Nights") + _field("Location: City", "Springfield")
    rows += _field("Location: State", "Illinois") + _field("Job Description", PROSE)
    job = read(f"<title>Job details</title><form><table>{rows}</table><p>Job details</p></form>")
    assert job["job_title"] == "Oven Hand, Nights"
    assert (job["location"]["city"], job["location"]["state_region"]) == ("Springfield", "IL")
    assert job["description"].startswith("You bake bread")


def test_a_title_without_a_heading_is_the_line_that_names_a_role() -> None:
    job = read(f"<title>Kiln careers: Night Shift Baker</title><div>Night Shift Baker</div>{PROSE}")
    assert job["job_title"] == "Night Shift Baker"
    assert read(f"<div>About our mornings</div>{PROSE}")["job_title"] is None


def test_many_lines_that_name_roles_are_no_title() -> None:
    roles = "".join(f"<b>{role}</b><br>" for role in ("Night Baker", "Day Driver", "Shop Manager", "Oven Cleaner"))
    assert read(f"<div>{roles}</div>{PROSE}")["job_title"] is None


@pytest.mark.parametrize(
    ("sentence", "company"),
    [
        ("We welcome everyone. Kiln Works is an Equal Opportunity Employer.", "Kiln Works"),
        ("Kiln &amp; Sons, Inc. is proud to be an equal opportunity workplace.", "Kiln & Sons, Inc."),
        ("We are an equal opportunity employer.", None),
        ("This is an equal opportunity for all.", None),
    ],
)
def test_the_employer_is_the_company_that_the_advertisement_names_as_hiring(sentence: str, company: str | None) -> None:
    html = f"<h1>Baker</h1>{PROSE}<p>{sentence}</p>"
    assert read(html, "https://sjobs.brassring.com/jobs/1")["company_name"] == company


def test_a_short_name_counts_as_used_only_if_it_is_a_word_of_the_advertisement() -> None:
    html = f"<h1>Baker</h1>{PROSE}<p>You manage yourself and the oven, from the first loaf to the last.</p>"
    assert read(f"{html}<footer>© 2026 LF, LLC</footer>")["company_name"] is None


def test_a_copyright_line_does_not_confirm_its_own_owner() -> None:
    notice = "Copyright 2026 Ovenware Systems. All rights reserved. Ovenware Systems is a registered trademark."
    assert read(f"<h1>Baker</h1>{PROSE}<p>{notice}</p>")["company_name"] is None


@pytest.mark.parametrize(
    ("sentence", "company"),
    [
        ("Send your letter by way of Ovenboard, or bring it to the back door of the bakery.", None),
        ("Ovenboard bakes for the whole town, and whoever bakes at Ovenboard eats for nothing.", "Ovenboard"),
    ],
)
def test_a_name_in_one_place_and_one_sentence_may_be_that_of_the_board(sentence: str, company: str | None) -> None:
    html = f'<meta property="og:site_name" content="Ovenboard"><h1>Baker</h1>{PROSE}<p>{sentence}</p>'
    assert read(html, "https://bread.example/jobs/1")["company_name"] == company


BULLETS = "<h2>Requirements</h2><ul><li>Five years of experience with ovens</li><li>Full-time</li></ul><a>Apply now</a>"


def test_links_to_similar_jobs_make_no_list_of_a_short_advertisement() -> None:
    lines = "<p>We bake bread and cake for the town.</p>" * 6
    short = f"<h1>Baker</h1><p>Location: Leeds, United Kingdom</p>{BULLETS}{lines}"
    assert extract(f"{short}<h2>Similar jobs</h2>{LINKS}").kind == "item"
    assert extract(f"<h1>Bakers wanted</h1>{LINKS}<h2>Similar jobs</h2>{LINKS}").kind == "list"


@pytest.mark.parametrize(
    ("line", "city", "pay"),
    [
        ("Berlin, Germany · Full-time · Engineering", "Berlin", None),
        ("Austin, TX | $70,000 - $85,000 a year", "Austin", "$70,000 - $85,000 per year"),
        ("€70,000 – €85,000 per year", None, "€70,000 – €85,000 per year"),
        ("Bread, Cake", None, None),
        ("LocationBerlin, Germany", None, None),
        ("This shop is known in Munich, Germany", None, None),
        ("A bonus of $5,000", None, None),
    ],
)
def test_place_and_pay_may_stand_without_a_label_under_the_title(line: str, city: str | None, pay: str | None) -> None:
    job = read(f"<h1>Baker</h1><p>{line}</p>{PROSE}")
    assert ((job["location"] or {}).get("city"), job["salary_range"]) == (city, pay)


def test_capital_letters_are_not_divided_into_words_in_every_way() -> None:
    """This once took thousands of times as long as reading a name."""
    name = "A" * 70
    assert _CITY.fullmatch(name)
    assert not _CITY.fullmatch(f"{name}!")
    assert _CITY.fullmatch("Rotenburg an der Fulda")
    hostile = cpu_ns(lambda: _CITY.fullmatch(f"{name}!"), times=20)
    assert hostile < 100 * cpu_ns(lambda: _CITY.fullmatch(name), times=20)


def test_a_school_that_invites_to_apply_advertises_no_job() -> None:
    words = "Tuition, admissions and financial aid for each semester. Apply now for full-time study, with experience. "
    page = f"<h1>Master of Accounting</h1><p>{words * 30}</p><button>Apply now</button>"
    assert extract(page, "https://school.example/programs/accounting").kind == "other"
    job = f"<h1>Admissions Officer</h1>{PROSE}<p>{words * 3}</p><button>Apply now</button>"
    assert extract(job, "https://school.example/careers/admissions-officer-12").kind == "item"


def test_a_long_page_that_mentions_work_by_the_way_is_no_posting() -> None:
    way = "We train your team, care about skills and offer benefits. Customers come to us with all their questions. "
    page = f"<h1>Consulting for banks</h1><p>{way * 30}</p>"
    assert extract(page, "https://firm.example/consulting").kind == "other"


def test_about_us_names_no_employer() -> None:
    assert read(f"<h1>Baker</h1>{PROSE}<h2>About Us</h2><p>Bread.</p>")["company_name"] is None
    assert read(f"<h1>Baker</h1>{PROSE}<h2>About Kiln Works</h2><p>Bread.</p>")["company_name"] == "Kiln Works"


@pytest.mark.parametrize(
    ("line", "city"),
    [
        ("Festanstellung, Vollzeit · Füssen", "Füssen"),
        ("CDI · Temps plein · Quimper (29)", "Quimper"),
        ("Bread · Füssen", None),  # no words of employment: a menu
        ("Full-time · Remote", None),
    ],
)
def test_a_small_town_is_a_place_next_to_words_of_employment(line: str, city: str | None) -> None:
    place = read(f"<h1>Baker</h1><p>{line}</p>{PROSE}")["location"]
    assert (place["city"] if place else None) == city
