"""URLs, places, telephone numbers, e-mail addresses and pay, each in its one form."""

import json

import pytest
from pydantic import BaseModel

from forager.extract.text.contacts import clean_email, e164, emails_in, phones_in
from forager.extract.text.locations import location_of, location_of_address
from forager.extract.text.normalise import Url, normalise
from forager.extract.text.salaries import salary_in, salary_of
from forager.extract.text.strings import one_line, paragraphs
from forager.extract.text.urls import clean_url, same_site
from forager.pipelines.scrape.extractors.company_website import CompanyWebsite
from tests.support.shared_data import shared_data


@pytest.mark.parametrize(
    ("said", "clean"),
    [
        ("http://Example.com/a?utm_source=x&b=1#f", "https://example.com/a?b=1#f"),
        ("example.com", "https://example.com/"),
        ("//x.example/z", "https://x.example/z"),
        ("HTTP://user:pw@Ex.example:80/?fbclid=1", "https://ex.example/"),
        ("https://ex.example:8443/p?q=ä&GCLID=3", "https://ex.example:8443/p?q=%C3%A4"),
        ("http://münchen.example/straße", "https://xn--mnchen-3ya.example/stra%C3%9Fe"),
        ("http://ex.example/?a=1&a=2&a=", "https://ex.example/?a=1&a=2&a="),
        (" http://ex.example/\n x ", "https://ex.example/%20x"),
        ("http://[2001:db8::1]:80/", "https://[2001:db8::1]/"),
    ],
)
def test_a_url_takes_its_one_form__SC_11(said: str, clean: str) -> None:
    assert clean_url(said) == clean
    assert clean_url(clean) == clean


@pytest.mark.parametrize(
    "said", ["mailto:a@b.example", "javascript:alert(1)", "https://", "", "no address", "http://a b/", "x" * 5_000]
)
def test_what_is_no_web_address_is_refused__SC_11(said: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        clean_url(said)


def test_the_site_of_a_host_is_the_domain_it_lies_in() -> None:
    assert same_site("https://www.a.example/x", "http://shop.a.example/")
    assert same_site("https://www.a.co.uk/x", "https://a.co.uk/")
    assert not same_site("https://a.co.uk/", "https://b.co.uk/")
    assert not same_site("https://a.example/", "https://evil-a.example/")


@pytest.mark.parametrize(
    ("said", "city", "state", "country"),
    [
        ("Berlin", "Berlin", None, None),
        ("Berlin, DE", "Berlin", None, "DE"),
        ("Wilmington, DE", "Wilmington", "DE", "US"),
        ("Humlebæk, DK", "Humlebæk", None, "DK"),
        ("Menlo Park, CA", "Menlo Park", "CA", "US"),
        ("Toronto, ON M5G 1M1, CA", "Toronto", "ON", "CA"),
        ("Austin, Texas, United States", "Austin", "TX", "US"),
        ("2110 Western Avenue, Seattle, Washington 98121 USA", "Seattle", "WA", "US"),
        ("Basingstoke, Hampshire", "Basingstoke", "Hampshire", None),
        ("Kassel, Hessen, Germany", "Kassel", "Hessen", "DE"),
        ("Av. Aragón 330, 28022 Madrid", "Madrid", None, None),
        ("São Paulo - SP", "São Paulo", "SP", "BR"),
        ("San Francisco Bay Area", "San Francisco", None, None),
        ("Hamburg (Remote)", "Hamburg", None, None),
        ("Remote - United States", None, None, "US"),
        ("Remote (EU)", None, None, None),
        ("Berlin or remote", "Berlin", None, None),
        ("Lyon (69)", "Lyon", None, None),
        ("New York", "New York", None, None),
        ("Washington, DC", "Washington", "DC", "US"),
        ("Deutschland", None, None, "DE"),
        ("12345", None, None, None),
        ("x" * 2_000, None, None, None),
    ],
)
def test_a_place_is_taken_apart_as_far_as_it_is_sure__SC_11(said: str, city: str, state: str, country: str) -> None:
    place = location_of(said)
    assert (place.city, place.state_region, place.country, place.raw) == (city, state, country, said)


def test_an_address_of_schema_org_is_a_place() -> None:
    place = location_of_address(
        {"addressLocality": "Oban", "addressRegion": "Argyll", "addressCountry": {"name": "UK"}}
    )
    assert place is not None
    assert (place.city, place.state_region, place.country) == ("Oban", "Argyll", "GB")
    assert location_of_address({"streetAddress": ""}) is None


def test_addresses_of_126_countries_name_their_country_and_rather_no_city_than_a_wrong_one() -> None:
    cases = json.loads(shared_data("locations", "address_components_formatted.json").read_text())
    named = right = cities = wrong = 0
    for case in cases:
        components = case["components"]
        city = components.get("city") or components.get("town") or components.get("village")
        place = location_of(", ".join(case["expected_lines"]))
        if components.get("country") == case["expected_lines"][-1] and place.country:
            named += 1
            right += place.country == components["country_code"].upper()
        if any(city and str(city) in line for line in case["expected_lines"]) and place.city:
            cities += 1
            wrong += place.city != city
    assert cities > 150
    assert wrong / cities <= 0.17
    assert named > 120
    assert right / named >= 0.95


@pytest.mark.parametrize(
    ("said", "region", "number"),
    [
        ("+1 (415) 234-3611", None, "+14152343611"),
        ("(415) 234-3611", "US", "+14152343611"),
        ("+44 (0) 1695 50000", None, "+44169550000"),
        ("0049 30 901820", None, "+4930901820"),
        ("tel:+45%2070%2010%2020%2030".replace("%20", " "), None, "+4570102030"),
        ("01729 822 100", "GB", "+441729822100"),
    ],
)
def test_a_number_becomes_e164__SC_11(said: str, region: str | None, number: str) -> None:
    assert e164(said, region) == number
    assert e164(number) == number


@pytest.mark.parametrize("said", ["(415) 234-3611", "12", "call us", "+1 000 000 0000", "", "9" * 400])
def test_a_number_that_is_not_sure_is_refused__SC_11(said: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        e164(said)


def test_numbers_are_found_in_text_with_a_region_or_in_the_american_grouping() -> None:
    assert [one.number for one in phones_in("Call 01729 822 100 or fax", "GB")] == ["+441729822100"]
    assert [one.number for one in phones_in("(937) 222-4145 or 937.222.4146")] == ["+19372224145", "+19372224146"]
    assert list(phones_in("CVR 29 10 23 84, 2026-03-04, 1,234,567")) == []


def test_mail_is_lower_cased_and_found_in_disguise__SC_11() -> None:
    assert clean_email("MailTo:Info@Glasblick.DE?subject=x") == "info@glasblick.de"
    assert list(emails_in("write to post (at) glasblick (dot) de, or sales@glasblick.de.")) == [
        "post@glasblick.de",
        "sales@glasblick.de",
    ]
    assert list(emails_in("logo@2x.png, you@example.com")) == []
    for bad in ("nobody", "a@b@c.de", "a b@c.de", "x@localhost"):
        with pytest.raises(ValueError, match="e-mail"):
            clean_email(bad)


def test_pay_is_one_line_with_currency_range_and_period() -> None:
    amount = {"currency": "eur", "value": {"minValue": "42000.00", "maxValue": 51000, "unitText": "YEAR"}}
    assert salary_of(amount) == "EUR 42000-51000 per year"
    assert salary_of({"currency": "USD", "value": 0}) is None
    assert salary_of("competitive") is None
    assert salary_in("£25,000 - 40,000", "Salary: (Per Annum)") == "£25,000 - 40,000 per year"
    assert salary_in("3.100 € pro Monat") == "3.100 € per month"
    assert salary_in("competitive, plus 5 weeks of leave") is None


def test_html_is_stripped_and_paragraphs_stay_apart__SC_11() -> None:
    prose = "<p>One &amp; two</p><style>p{}</style><ul><li> a <li>b</ul><!-- no -->&lt;b&gt;bold&lt;/b&gt;"
    assert one_line(prose) == "One & two a b bold"
    assert paragraphs(prose) == "One & two\na\nb\nbold"
    assert one_line("2 < 3 and 5 > 4") == "2 < 3 and 5 > 4"


def test_a_bad_field_is_dropped_with_its_reason_and_the_rest_returned__SC_11() -> None:
    raw = {"company_name": " <b>Kiln</b> ", "contact_email": "nobody", "contact_phone": None, "unknown": 1}
    normalised = normalise(CompanyWebsite, raw)
    assert normalised.result == CompanyWebsite(company_name="Kiln")
    assert normalised.dropped.keys() == {"contact_email"}
    assert "e-mail" in normalised.dropped["contact_email"]


def test_a_frozen_output_of_another_package_is_normalised_as_well() -> None:
    class Kiln(BaseModel, frozen=True):
        name: str | None = None
        height: float | None = None
        site: Url | None = None

    normalised = normalise(Kiln, {"name": " <i>A</i> ", "height": "tall", "site": "kiln.example"})
    assert normalised.result == Kiln(name="A", site="https://kiln.example/")
    assert normalised.dropped.keys() == {"height"}
