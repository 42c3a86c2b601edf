"""Over any page and any raw data: nothing makes reading fail, and what comes out is clean or not there."""

import json
import string
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from forager.extract.text.locations import NormalizedLocation
from forager.extract.text.normalise import normalise
from forager.extract.text.strings import TAG
from forager.pipelines.scrape.extractor import Extractor, PageInput
from forager.pipelines.scrape.extractors import EXTRACTORS
from forager.pipelines.scrape.extractors.company_website import CompanyWebsite
from forager.pipelines.scrape.extractors.job_posting import JobPosting
from forager.pipelines.scrape.extractors.linkedin_profile import LinkedInProfile

AT = datetime(2026, 3, 4, tzinfo=UTC)
ANY_EXTRACTOR = st.sampled_from(EXTRACTORS)
OF_FIELDS = st.sampled_from([extractor for extractor in EXTRACTORS if extractor.by_default is None])
"""Types whose values are all normalised; formats of any page, such as its HTML, are returned unchanged."""
WORDS = st.text(string.ascii_letters + " äßøж,.-", min_size=1, max_size=40).filter(str.strip)
NOISE = st.text(max_size=60).map(lambda text: f"<p>{text}</p><br/><b>noise</b>")
TAGS = st.sampled_from(
    ["<b>{}</b>", "<p class='x'>{}</p>", "&lt;i&gt;{}&lt;/i&gt;", "{}<br/>", "<script>x()</script>{}"]
)
MARKED = st.builds(lambda tag, words: tag.format(words), TAGS, WORDS)
RAW_VALUE = st.one_of(NOISE, MARKED, WORDS, st.none(), st.integers(), st.lists(WORDS, max_size=2), st.just("  "))

# A page out of the parts that real pages have; each may be there or not, and any of them may be damaged.
PARTS = {
    "jsonld": '<script type="application/ld+json">{{"@type":"{kind}","name":"{a}","title":"{a}"}}</script>',
    "broken": '<script type="application/ld+json">{{"@type":"{kind}", "name": {a}</script>',
    "microdata": '<div itemscope itemtype="https://schema.org/{kind}"><b itemprop="name">{a}</b></div>',
    "meta": '<meta property="og:title" content="{a}"><meta property="og:site_name" content="{a}">',
    "h1": "<h1>{a}</h1>",
    "label": "<dl><dt>Location:<dd>{a}</dl>",
    "prose": "<p>{a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a} {a}</p>",
    "phone": '<a href="tel:+4930901820">{a}</a>',
    "nested": "<div><div><table><tr><td><span><b><p>{a}",
    "junk": "</div></p><![CDATA[<<>&#0;&#xD800;{a}\x00",
}
KINDS = st.sampled_from(["JobPosting", "Organization", "Person", "Thing"])
PAGES = st.builds(
    lambda names, kind, words: "".join(PARTS[name].format(kind=kind, a=words) for name in names),
    st.lists(st.sampled_from(sorted(PARTS)), max_size=6),
    KINDS,
    st.one_of(WORDS, NOISE),
)
ANY_HTML = st.one_of(PAGES, PAGES.map(lambda page: page.encode("utf-16", "replace")), st.binary(max_size=300), NOISE)


def read(extractor: Extractor, html: str | bytes, wanted: frozenset[str]) -> BaseModel:
    extracted = extractor.parse(PageInput("https://site.example/page", html, 200, AT), wanted)
    assert extracted.fields.keys() <= wanted
    return normalise(extractor.output, {name: found.value for name, found in extracted.fields.items()}).result


# Feature: scraping-microservices, Property 13: Missing extraction fields default to null
@settings(max_examples=100, deadline=None)
@given(extractor=ANY_EXTRACTOR, html=ANY_HTML, data=st.data())
def test_what_is_not_on_a_page_is_null_and_nothing_fails__SC_P13(
    extractor: Extractor, html: str | bytes, data: st.DataObject
) -> None:
    wanted = data.draw(st.frozensets(st.sampled_from(sorted(extractor.fields))))
    result = read(extractor, html, wanted).model_dump()
    assert result.keys() == extractor.fields
    assert all(result[name] is None for name in extractor.fields - wanted)
    blank = read(extractor, "<html><body></body></html>", extractor.fields).model_dump()
    assert set(blank.values()) == {None}


def texts(value: object) -> list[str]:
    """Text fields of a result; a location's `raw` is the page's own words, as property 34 has it."""
    if isinstance(value, str):
        return [value]
    return [said for name, said in value.items() if name != "raw" and said] if isinstance(value, dict) else []


# Feature: scraping-microservices, Property 31: Result normalization produces valid schema
@settings(max_examples=100, deadline=None)
@given(extractor=OF_FIELDS, data=st.data())
def test_normalising_gives_a_valid_result_without_tags_or_blanks__SC_P31(
    extractor: Extractor, data: st.DataObject
) -> None:
    names = st.sampled_from([*sorted(extractor.fields), "unknown"])
    raw = data.draw(st.dictionaries(names, RAW_VALUE, max_size=8))
    result = normalise(extractor.output, raw).result
    assert extractor.output.model_validate(result.model_dump()) == result
    for value in result.model_dump().values():
        for text in texts(value):
            assert text
            assert text == text.strip()
            assert TAG.search(text) is None
    prose = data.draw(MARKED)
    kept = normalise(JobPosting, {"job_title": prose}).result.job_title
    assert kept is None or "<" not in kept


GOOD = {
    "company_name": st.just("Nordwind GmbH"),
    "contact_email": st.just("Info@Nordwind.de"),
    "contact_phone": st.just("+49 30 901820"),
    "website_url": st.just("http://nordwind.de/?utm_source=x"),
    "headquarters": st.just("Berlin, Germany"),
}
BAD = {
    "company_name": st.one_of(st.integers(), st.just([]), st.just("<b></b>")),
    "contact_email": st.sampled_from(["nobody", "a@b@c", "@", "a b@c.de", "x@localhost"]),
    "contact_phone": st.sampled_from(["call us", "+1", "12", "+999 123", "030 901820"]),
    "website_url": st.sampled_from(["mailto:a@b.de", "javascript:alert(1)", "https://", "ftp://x.de", "http://[::"]),
    "headquarters": st.one_of(st.integers(), st.just(["x"]), st.just(3.5)),
}


# Feature: scraping-microservices, Property 32: Partial result on validation failure
@settings(max_examples=100, deadline=None)
@given(bad=st.sets(st.sampled_from(sorted(GOOD))), data=st.data())
def test_bad_fields_are_dropped_and_the_good_ones_stay__SC_P32(bad: set[str], data: st.DataObject) -> None:
    raw = {name: data.draw((BAD if name in bad else GOOD)[name]) for name in GOOD}
    normalised = normalise(CompanyWebsite, raw)
    result = normalised.result.model_dump()
    assert normalised.dropped.keys() == bad
    assert all(normalised.dropped.values())
    assert {name for name in GOOD if result[name] is None} == bad


HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,10}[a-z0-9]\.(com|de|co\.uk|example)", fullmatch=True)
TRACKERS = st.sampled_from(["utm_source", "utm_campaign", "UTM_Medium", "fbclid", "gclid", "msclkid", "mc_eid", "_ga"])
HONEST_NAMES = ("id", "page", "q", "lang", "ref_no", "utmost")
HONEST = st.sampled_from(HONEST_NAMES)
PAIRS = st.lists(
    st.tuples(st.one_of(TRACKERS, HONEST), st.from_regex(r"[a-zA-Z0-9%20]{0,8}", fullmatch=True)), max_size=6
)
PATHS = st.from_regex(r"(/[a-zA-Z0-9_.~-]{1,8}){0,3}/?", fullmatch=True)


# Feature: scraping-microservices, Property 33: URL normalization
@settings(max_examples=100, deadline=None)
@given(scheme=st.sampled_from(["http://", "https://", "HTTP://", "//", ""]), host=HOSTS, path=PATHS, pairs=PAIRS)
def test_canonical_url_is_https_without_tracking_parameters__SC_P33(
    scheme: str, host: str, path: str, pairs: list[tuple[str, str]]
) -> None:
    query = "&".join(f"{name}={value}" for name, value in pairs)
    url = f"{scheme}{host}{path}" + (f"?{query}" if query else "")
    clean = normalise(JobPosting, {"posting_url": url}).result.posting_url
    assert clean is not None
    assert clean.startswith(f"https://{host}")
    kept = [part.partition("=")[0] for part in clean.partition("?")[2].split("&") if part]
    assert kept == [name for name, _ in pairs if name in HONEST_NAMES]
    assert normalise(JobPosting, {"posting_url": clean}).result.posting_url == clean


PLACES = st.lists(
    st.sampled_from(
        ["Berlin", "Germany", "CA", "São Paulo - SP", "2300 København S", "USA", "Remote", "Main Street 1", ","]
    ),
    min_size=1,
    max_size=5,
).map(", ".join)


# Feature: scraping-microservices, Property 34: Location normalization structure
@settings(max_examples=100, deadline=None)
@given(text=st.one_of(st.text(min_size=1, max_size=400), PLACES).filter(str.strip))
def test_a_location_has_its_four_parts_and_keeps_its_words__SC_P34(text: str) -> None:
    place = normalise(JobPosting, {"location": text}).result.location
    assert isinstance(place, NormalizedLocation)
    assert place.raw == text
    assert set(place.model_dump()) == {"city", "state_region", "country", "raw"}
    assert all(part is None or part.strip() == part != "" for part in (place.city, place.state_region))
    assert place.country is None or (len(place.country) == 2 and place.country.isupper())


RAW_RESULT = {
    LinkedInProfile: ("name", "headline", "current_company", "location", "summary", "profile_url"),
    CompanyWebsite: tuple(CompanyWebsite.model_fields),
    JobPosting: tuple(JobPosting.model_fields),
}
USABLE = st.one_of(WORDS, MARKED, NOISE, HOSTS, *GOOD.values())


# Feature: scraping-microservices, Property 35: Result serialization round trip
@settings(max_examples=100, deadline=None)
@given(output=st.sampled_from(sorted(RAW_RESULT, key=str)), data=st.data())
def test_a_result_survives_json__SC_P35(output: type[BaseModel], data: st.DataObject) -> None:
    raw = {name: data.draw(USABLE) for name in RAW_RESULT[output]}
    result = normalise(output, raw).result
    assert output.model_validate_json(result.model_dump_json()) == result
    assert output.model_validate(json.loads(json.dumps(result.model_dump(mode="json")))) == result
