"""The step of the places pipeline: the order of I/O for one query, and the outcome of each kind of answer. `parse.py`
reads the answer.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

from dataclasses import dataclass
from typing import Any

from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Outcome
from forager.extract.serper import API_KEY, KEY, QUERY_REFUSED, facts, refused
from forager.pipelines.places.job import EARLY_EXIT, AreaQuery, Query, point_of
from forager.pipelines.places.parse import CREDIT, MAP_CREDITS, read_page, records

__all__ = ["API_KEY", "CREDIT", "REASONS", "Serper"]

REASONS = frozenset({EARLY_EXIT, QUERY_REFUSED})


@dataclass(frozen=True, slots=True)
class Serper:
    """The upstream: its URL and its time-out. Its method `search` is the step."""

    base_url: str = "https://google.serper.dev"
    timeout: float = 30.0
    results_per_page: int = 10
    results_per_map: int = 20
    map_credits: int = MAP_CREDITS

    def request(self, query: Query) -> Request:
        body: dict[str, Any] = {"q": query.text, "page": query.page}
        if isinstance(query, AreaQuery):
            point = point_of(query.zip)
            body |= {"ll": None if point is None else point.viewport}
        else:
            body |= {"num": self.results_per_page}
        body |= {name: text for name, text in (("gl", query.country), ("hl", query.language)) if text}
        url = f"{self.base_url.rstrip('/')}/{'maps' if isinstance(query, AreaQuery) else 'places'}"
        # An API does not redirect; following a redirect would be a second, uncounted request.
        return Request.post_json(url, body, auth=KEY, timeout=self.timeout, max_redirects=0)

    async def search(self, query: Query, fetch: Fetch) -> Outcome:
        response = await fetch(self.request(query))
        if response.status != 200:
            return refused(response)
        on_map = isinstance(query, AreaQuery)
        page = read_page(response, self.map_credits if on_map else CREDIT)
        most = self.results_per_map if on_map else self.results_per_page
        full = len(page.rows) >= most
        return Done(
            records=records(page, query, response),
            cost=page.credits,
            skip=() if full else query.later_pages(f"early_exit_page{query.page}_lt{most}"),
            facts=facts(response, results_count=len(page.rows)),
        )
