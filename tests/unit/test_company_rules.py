"""Reading companies: names by votes, addresses by country, contacts, and pages that are not of a company."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from forager.extract.companies import company_name, copyright_owners, tidy
from forager.extract.html.document import Document
from forager.extract.text.addresses import addresses, region_of
from forager.extract.text.locations import location_of
from forager.extract.text.normalise import normalise
from forager.extract.text.urls import clean_url
from forager.pipelines.scrape.extractor import Extractor, PageInput
from forager.pipelines.scrape.extractors.company_website import company_website
from forager.pipelines.scrape.extractors.linkedin_profile import linkedin_profile

AT = datetime(2026, 1, 1, tzinfo=UTC)


def document(*lines: str, url: str = "https://page.example/") -> Document:
    return Document("".join(f"<p>{line}</p>" for line in lines), url)


def read(html: str, url: str = "https://page.example/") -> dict[str, Any]:
    found = company_website.parse(PageInput(url, html, 200, AT), company_website.fields).fields
    return normalise(company_website.output, {name: one.value for name, one in found.items()}).result.model_dump()


@pytest.mark.parametrize(
    ("lines", "city"),
    [
        (("1300 New York Avenue, N.W.", "Washington, D.C. 20577, USA"), "Washington"),
        (("1617 3rd Avenue", "New York, NY", "10128"), "New York"),
        (("439 King Street West", "Toronto, Ontario, Canada", "M5V 1K4"), "Toronto"),
        (("Kruisstraat 10", "6634 AG Batenburg"), "Batenburg"),
        (("ul. Głowackiego 39", "74-200 Pyrzyce"), "Pyrzyce"),
        (("Clonminch House,", "Tullamore,", "Co. Offaly"), "Tullamore"),
        (("Khadim Ali Road,", "Sialkot (51310) - Pakistan."), "Sialkot"),
        (("1 Mill Lane", "Cudham", "Sevenoaks", "Kent", "TN14 7QA"), "Sevenoaks"),
        (("45 Ironmongers Place, Isle of Dogs.", "E14 9YD"), "London"),
        (("Avenida Juan Luis 3", "29639 Benalmádena (Málaga)"), "Benalmádena"),
        (("12 MG Road", "Bengaluru - 560001, Karnataka, India"), "Bengaluru"),
        (("Unit 3, India 560001",), None),
        (("〒150-0041 東京都渋谷区神南1-2-3",), "渋谷区"),
        (("baliseauto.com", "MA 01089"), None),
        (("Type HP21 3AB cartridge", "ZZ9 9ZZ"), None),
    ],
)
def test_the_city_is_where_the_country_writes_it(lines: tuple[str, ...], city: str | None) -> None:
    found = [address.where.city for address in addresses(document(*lines))]
    assert (found[0] if found else None) == city


@pytest.mark.parametrize(
    ("lines", "city"),
    [
        (("220030, г. Минск, ул. Ленина, 5",), "Минск"),
        (("1051 Budapest, Vörösmarty tér 1.",), "Budapest"),
        (("2nd Floor, SM City North Avenue, Quezon City",), "Quezon City"),
        (("Unit 7, 10 Harbour Road", "Dubai"), "Dubai"),
        (("Rua das Flores, 120", "4000-064 Porto"), "Porto"),
        (("We opened on 5 March 2010 in a house, Berlin",), None),  # a sentence without a street
        (("Open on 3 days",), None),
    ],
)
def test_a_page_without_a_form_of_address_has_the_city_that_stands_by_a_street(
    lines: tuple[str, ...], city: str | None
) -> None:
    place = read("".join(f"<p>{line}</p>" for line in ("Kiln Works", *lines)))["headquarters"]
    assert (place["city"] if place else None) == city


def test_a_direction_may_be_part_of_a_city_s_name() -> None:
    for lines, city in (
        (("101 Welch St", "North Vancouver, V7P 1B3, BC."), "North Vancouver"),
        (("12 Ocean Blvd, West Palm Beach, FL 33401",), "West Palm Beach"),
        (("100 Main Street South Peoria, IL 61602",), "Peoria"),
    ):
        found = [address.where.city for address in addresses(document(*lines))]
        assert found[:1] == [city], lines


@pytest.mark.parametrize(
    ("html", "region"),
    [
        ("<p>info@acebraces.ie</p>", "IE"),
        ('<html lang="en-US"><p>Write to info@bridge.nl</p>', "NL"),
        ('<html lang="pl"><p>Witamy</p>', "PL"),
        ("<p>Cartridge T0 6AB</p>", None),
    ],
)
def test_the_country_of_a_page_is_that_of_its_mailboxes_before_its_language(html: str, region: str | None) -> None:
    assert region_of(Document(html, "https://page.example/")) == region


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        ("© Thames Plumbers 2012 l Terms and Conditions", "Thames Plumbers"),
        ("Bimbo Bakeries USA © | 255 Business Center Dr. | Horsham", "Bimbo Bakeries USA"),
        ("© ЗАО АВАНГАРД ЛИЗИНГ, финансовый лизинг, 2010", "ЗАО АВАНГАРД ЛИЗИНГ"),
        ("© 2010 All Rights Reserved", None),
    ],
)
def test_a_copyright_line_names_its_owner_and_nothing_else(line: str, owner: str | None) -> None:
    assert next(copyright_owners(document(line)), None) == owner


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("City of Dallas, Texas.", "City of Dallas"),
        ("The Official Website of Arlington Cemetery", "Arlington Cemetery"),
        ("Mapa serwisu", None),
        ("Opening hours", None),
        ("255 Business Center Dr", None),
    ],
)
def test_a_name_has_no_place_and_no_command(words: str, name: str | None) -> None:
    assert tidy(words) == name


def test_the_line_over_the_street_is_a_name_and_places_that_agree_win() -> None:
    page = document(
        "H&amp;S Solicitors", "250 Finchley Road", "Hampstead", "London", "NW3 6DN", "mail@hssolicitors.co.uk"
    )
    named = company_name(page, list(addresses(page)))
    assert named is not None
    assert named.name == "H&S Solicitors"
    alone = company_name(document("© 2024 Google", "Our restaurant"), [])
    assert alone is None


@pytest.mark.parametrize("kind", ["Bakery", "AutoRepair", "Physician", "TravelAgency", "Museum"])
def test_every_kind_of_business_is_an_organisation(kind: str) -> None:
    data = {"@type": kind, "name": "Kiln Works GmbH", "telephone": "+43 732 123456"}
    company = read(f'<script type="application/ld+json">{json.dumps(data)}</script><p>Welcome</p>')
    assert (company["company_name"], company["contact_phone"]) == ("Kiln Works GmbH", "+43732123456")


def test_a_web_address_is_a_name_only_if_the_page_has_no_other() -> None:
    data = {"@type": "Store", "name": "shop.kiln.example"}
    script = f'<script type="application/ld+json">{json.dumps(data)}</script>'
    assert read(f"{script}<p>Welcome</p><p>© 2026 Kiln Works</p>")["company_name"] == "Kiln Works"
    assert read(f"{script}<p>Welcome</p>")["company_name"] == "shop.kiln.example"
    assert read("<title>Bread: Kiln.example</title><p>© 2026 www.Kiln.example</p>")["company_name"] == "Kiln.example"


def test_of_equal_names_that_of_the_title_is_the_companys() -> None:
    lines = ("Kiln Bread &amp; Cake", "Oven Works", "5433 Ontario Road", "Fremont, CA 94555")
    html = "<title>Kiln Cake and Bread</title>" + "".join(f"<p>{line}</p>" for line in lines)
    page = Document(html, "https://page.example/")
    named = company_name(page, list(addresses(page)))
    assert named is not None
    assert named.name == "Kiln Bread & Cake"


def test_a_trunk_zero_with_blanks_around_it_hides_no_number() -> None:
    assert read("<p>Tel: +43 (0) 732 12 34 56</p>")["contact_phone"] == "+43732123456"


def test_a_mailbox_of_an_ombudsman_is_no_contact() -> None:
    html = "<title>Kiln Works</title><p>office@kilnworks.example.com</p><p>help@ombudsman.example.org</p>"
    assert read(html)["contact_email"] == "office@kilnworks.example.com"
    assert read("<title>Kiln Works</title><p>help@ombudsman.example.org</p>")["contact_email"] is None


def test_a_legal_form_marks_a_name_and_not_a_headquarters() -> None:
    assert read("<p>Headquarters: ioSafe, Inc.</p>")["headquarters"] is None


@pytest.mark.parametrize("html", ["<h1>Page not found</h1><p>Sorry.</p>", "<title>404</title><p>x</p>"])
def test_an_error_page_is_no_company(html: str) -> None:
    extracted = company_website.parse(PageInput("https://page.example/", html, 200, AT), company_website.fields)
    assert (extracted.kind, extracted.fields) == ("error", {})


@pytest.mark.parametrize(
    ("text", "city"),
    [("US-IL-Yorkville", "Yorkville"), ("Remote", None), ("Anywhere", None), ("-", None), ("on_site", None)],
)
def test_what_is_no_place_has_no_city(text: str, city: str | None) -> None:
    assert location_of(text).city == city


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("https%3A%2F%2Fkiln.example%2Fjobs%2F1", "https://kiln.example/jobs/1"),
        ("/jobs/1%20a", "https://page.example/jobs/1%20a"),
    ],
)
def test_a_canonical_address_that_is_encoded_as_a_whole_is_decoded(href: str, url: str) -> None:
    assert Document(f'<link rel="canonical" href="{href}">', "https://page.example/").canonical == url


def test_dot_segments_of_an_address_are_resolved() -> None:
    assert clean_url("https://kiln.example/a/../jobs/./1") == "https://kiln.example/jobs/1"


@pytest.mark.parametrize(
    ("html", "kind"), [("<div id=root></div>", "empty"), ("<p>" + "Lorem ipsum dolor. " * 20, "other")]
)
@pytest.mark.parametrize("extractor", [company_website, linkedin_profile], ids=lambda one: one.name)
def test_a_page_without_any_of_the_fields_is_reported(extractor: Extractor, html: str, kind: str) -> None:
    assert extractor.parse(PageInput("https://page.example/", html, 200, AT), extractor.fields).kind == kind
