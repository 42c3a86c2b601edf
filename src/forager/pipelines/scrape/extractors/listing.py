"""One listing for rent or sale: structured data first, then the text around the headline."""

from pydantic import BaseModel

from forager.core.http import Click, Scroll, WaitFor
from forager.extract.html.document import Document
from forager.extract.html.json_page import page_of_json
from forager.extract.html.structured_data import loads_tolerantly
from forager.extract.listings.reading import read_home
from forager.extract.text.normalise import Line, Url
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFindings, PageInput, page_url
from forager.pipelines.scrape.job import CONSENT, CONSENT_WAIT
from forager.pipelines.scrape.steps import login_wall


class HomeListing(BaseModel):
    title: Line | None = None
    offer: Line | None = None
    """`rent` or `sale`."""
    price: Line | None = None
    """A decimal: the rent or the price; of a range, the low end."""
    currency: Line | None = None
    price_period: Line | None = None
    """`month` or `week`, if the page has it."""
    bedrooms: Line | None = None
    bathrooms: Line | None = None
    area: Line | None = None
    area_unit: Line | None = None
    """`sqft` or `m2`."""
    street: Line | None = None
    city: Line | None = None
    state_region: Line | None = None
    postcode: Line | None = None
    country: Line | None = None
    available_from: Line | None = None
    """ISO 8601."""
    listing_url: Url | None = None


def parse(page: PageInput, wanted: frozenset[str]) -> Extracted:
    document = Document(page.html, page.url)
    if document.source.lstrip()[:1] in ("{", "["):
        document = Document(page_of_json(loads_tolerantly(document.source)), page.url)
    wall = login_wall(document)
    if wall:
        return Extracted(wall=wall)
    home = read_home(document)
    findings = FieldFindings(wanted)
    for name, (value, source, confidence) in home.values.items():
        findings.offer(name, value, source, confidence)
    return findings.extracted("listing_url", page_url(document), kind=home.kind)


listing = Extractor(
    name="listing",
    output=HomeListing,
    script=(
        WaitFor("script[type='application/ld+json'], h1, main", timeout=10.0),
        Click(CONSENT, timeout=CONSENT_WAIT),
        Scroll(2),
    ),
    parse=parse,
)
