"""The rows of a run's dataset, made from the listings world when they are read. Pure but for a small cache."""

import re
from typing import Any
from urllib.parse import urlsplit

from forager.sandbox.apify.config import ApifyConfig
from forager.sandbox.apify.inputs import OLD_ACTOR
from forager.sandbox.apify.runs import Run
from forager.sandbox.draw import chance
from forager.sandbox.listings import items, site
from forager.sandbox.listings.homes import home_of
from forager.sandbox.listings.world import Listing, ListingsWorld, Market

Row = dict[str, Any]
_PER_LIST_PAGE = 25
_KEPT = 64
_LIST_PAGE = re.compile(r"/([a-z-]+)-([a-z]{2})/?")


class Rows:
    """What runs find. The world is looked at as it is when a run starts."""

    def __init__(self, world: ListingsWorld, config: ApifyConfig) -> None:
        self._world = world
        self._config = config
        self._targets: dict[str, list[tuple[Market, Listing]]] = {}

    def count(self, sent: dict[str, Any], moment: float) -> int:
        """How many rows a run with this input finds."""
        return len(self._found(sent, moment))

    def row(self, run: Run, number: int, port: int) -> Row:
        """One row of a dataset, by its place; the same whenever it is read."""
        if run.outcome == "placeholder":
            return items.placeholder_row()
        if chance(self._config.seed, "empty", run.id, number) < self._config.empty_share:
            return {}
        row = self._usual(run, number, port)
        every = run.bad_every or self._config.bad_every
        return items.bad_row(row, number // every) if every and number % every == every - 1 else row

    def _usual(self, run: Run, number: int, port: int) -> Row:
        if run.id not in self._targets:
            if len(self._targets) >= _KEPT:
                del self._targets[next(iter(self._targets))]
            self._targets[run.id] = self._found(run.input, run.started)
        market, listing = self._targets[run.id][number]
        home = home_of(self._world, market, listing, run.started)
        path = f"/rentals/{home.id}" if listing.twin else f"/{home.slug}/{home.id}/"
        url = self._config.portals[listing.twin].format(port=port) + path
        with_rent = chance(self._config.seed, "rent", listing.market, listing.home) < self._config.rent_share
        make = items.old_row if run.actor == OLD_ACTOR else items.api_row
        return make(home, url, run.started, with_rent=with_rent)

    def _found(self, sent: dict[str, Any], moment: float) -> list[tuple[Market, Listing]]:
        listings: list[tuple[Market, Listing]] = []
        if sent.get("search"):
            listings += self._search(sent["search"], moment)
        for url in sent.get("startUrls", ()):
            listings += self._start_url(url, moment)
        if "endPage" in sent:
            listings = listings[: max(0, sent["endPage"]) * _PER_LIST_PAGE]
        most = sent.get("maxItems")
        return listings[:most] if most else listings

    def _search(self, search: str, moment: float) -> list[tuple[Market, Listing]]:
        market = self._world.market(search)
        return [(market, listing) for listing in self._world.listings(search, moment)]

    def _start_url(self, url: str, moment: float) -> list[tuple[Market, Listing]]:
        """A list page is its market; a page of a property is that property if it is listed. Others find nothing."""
        path = urlsplit(url).path
        listing = site.read_path(self._world, path).listing
        if listing is not None:
            market = Market(listing.market, "Townsend", "IL")
            return [(market, listing)] if self._world.listed(listing, moment) else []
        match = _LIST_PAGE.fullmatch(path)
        if match is None:
            return []
        return self._search(f"{match[1].replace('-', ' ').title()}, {match[2].upper()}", moment)
