"""The web site of the listings: live pages, and every form of a page of a listing that is gone. Pure.

`/<slug>/<id>/`       a listing of the first portal
`/rentals/<id>`       a listing of the second portal
`/<city>-<st>/`       a search page
`/login`              target of a login wall's redirect
"""

import re
from html import escape
from typing import NamedTuple

from forager.sandbox.listings.homes import SimulatedHome, home_of
from forager.sandbox.listings.world import ListingsWorld, SimulatedListing, SimulatedMarket
from forager.sandbox.scrape_pages import TEXT
from forager.sandbox.upstream import Reply
from forager.sandbox.wire import HTML
from forager.sandbox.world import chance

FAULTS = ("captcha", "captcha_200", "blocked", "parked", "login_wall", "login_redirect")
"""Answers without evidence about the listing."""
GONE = ("404", "410", "phrase", "search")
"""Answers for a listing that is gone: two statuses, a sentence on the page, a redirect to the search page."""
PHRASE = "This property is no longer available"
_PAGE = re.compile(r"/(?:rentals/([0-9a-z]{7})|(?:[a-z0-9-]+)/([0-9a-z]{7}))/?")
_SEARCH = re.compile(r"/([a-z-]+)-([a-z]{2})/?")


class ListingVisit(NamedTuple):
    """The page of a path; without `listing` for another page or an impossible id."""

    operation: str
    subject: str
    listing: SimulatedListing | None = None


def read_path(world: ListingsWorld, path: str) -> ListingVisit:
    """Return which page a path names."""
    match = _PAGE.fullmatch(path)
    if match is not None:
        listing_id = match[1] or match[2]
        return ListingVisit("page.get", listing_id, world.listing(listing_id))
    return ListingVisit("search.get" if _SEARCH.fullmatch(path) else "site.get", path)


def answer(
    world: ListingsWorld, visit: ListingVisit, moment: float, robots: str, gone: tuple[str, ...] = GONE
) -> Reply:
    """Return the page at this moment. A listing that is gone answers in one of the ways of `gone`, always in the
    same."""
    if visit.operation == "page.get":
        if visit.listing is None:
            return page("Not found", "<h1>Page not found</h1>", 404)
        market = SimulatedMarket(
            visit.listing.market, "Townsend", "IL"
        )  # an id does not contain the name of its market
        home = home_of(world, market, visit.listing, moment)
        if world.listed(visit.listing, moment):
            return _live(home)
        drawn = chance(world.seed, "gone", visit.subject, world.timeline(visit.listing).version(moment))
        return _gone(gone[int(drawn * len(gone))], home)
    if visit.subject == "/robots.txt":
        return Reply(200, robots.encode(), TEXT)
    if visit.operation == "search.get":
        return page("Apartments for rent", "<h1>Apartments for rent</h1><p>Search results: 120 rentals.</p>")
    if visit.subject == "/login":
        return _LOGIN
    return page("Not found", "<h1>Page not found</h1>", 404) if visit.subject != "/" else page("Home", "<h1>Home</h1>")


def trouble(fault: str) -> Reply | None:
    """Return the page of one of `FAULTS`; None for any other fault."""
    made = _TROUBLE.get(fault)
    return Reply(made.status, made.body, made.kind, made.headers) if made is not None else None


def page(title: str, body: str, status: int = 200) -> Reply:
    text = f"<!doctype html><html><head><title>{escape(title)}</title></head><body>{body}</body></html>"
    return Reply(status, text.encode(), HTML)


def _live(home: SimulatedHome) -> Reply:
    # A live page may carry the sentence of a gone one in a script: only the page's own text is evidence.
    messages = f'<script>var messages = {{"gone": "{PHRASE}"}};</script>' if home.built % 3 == 0 else ""
    rows = "".join(
        f"<li>Unit {unit.number}: {unit.beds} bed, {unit.area:,} sq ft, <b>${unit.rent:,}</b>, {unit.available}</li>"
        for unit in home.units
    )
    offers = f"<ul class='units'>{rows}</ul>" if rows else "<p class='rent'>Call for rent</p>"
    amenities = "".join(f"<li>{escape(each)}</li>" for each in home.amenities)
    return page(
        f"{home.title} - Apartments for Rent",
        f"{messages}<h1 id='propertyName'>{escape(home.title)}</h1><address>{escape(home.street)}, {home.zip}</address>"
        f"<p>Phone {home.phone}</p>{offers}<h2>Amenities</h2><ul>{amenities}</ul>"
        f"<p>{escape(home.title)} was built in {home.built}. Contact us to schedule a tour of an apartment today.</p>",
    )


def _gone(kind: str, home: SimulatedHome) -> Reply:
    if kind == "phrase":
        text = f"<h1>{escape(home.title)}</h1><p class='notice'>{PHRASE}.</p><p>See similar rentals nearby.</p>"
        return page(f"{home.title} - Apartments", text)
    if kind == "search":
        return Reply(302, b"", HTML, b"Location: /townsend-il/\r\n")
    return page("Not found", "<h1>Page not found</h1><p>This page does not exist.</p>", int(kind))


_LOGIN = page(
    "Sign in", "<h1>Sign in to see this page</h1><form method='post'><input name='user'><input type='password'></form>"
)
_CAPTCHA = page(
    "Robot check", "<p>Please show that you are not a robot.</p><div class='h-captcha' data-sitekey='x'></div>", 403
)
_TROUBLE: dict[str, Reply] = {
    "captcha": _CAPTCHA,
    "captcha_200": Reply(200, _CAPTCHA.body, HTML),
    "blocked": page(
        "Access denied", "<h1>Access Denied</h1><p>You don't have permission to access this page.</p>", 403
    ),
    "parked": page(
        "apartments.example is for sale",
        "<h1>This domain is for sale</h1><p>Related searches: Apartments, Loans.</p><a href='/buy'>Buy this domain</a>",
    ),
    "login_wall": _LOGIN,
    "login_redirect": Reply(302, b"", HTML, b"Location: /login\r\n"),
}
