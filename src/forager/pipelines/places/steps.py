"""The step of the places pipeline: the order of I/O for one query, and the outcome of each kind of answer. `parse.py`
reads the answer.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

from dataclasses import dataclass

from forager.core.http import Fetch, Request
from forager.core.outcome import Done, Outcome
from forager.extract.serper import API_KEY, KEY, QUERY_REFUSED, facts, refused
from forager.pipelines.places.job import EARLY_EXIT, Query
from forager.pipelines.places.parse import CREDIT, read_page, records

__all__ = ["API_KEY", "CREDIT", "REASONS", "Serper"]

REASONS = frozenset({EARLY_EXIT, QUERY_REFUSED})


@dataclass(frozen=True, slots=True)
class Serper:
    """The upstream: its URL and its time-out. Its method `search` is the step."""

    base_url: str = "https://google.serper.dev"
    timeout: float = 30.0
    results_per_page: int = 10

    def request(self, query: Query) -> Request:
        body = {"q": query.text, "page": query.page, "num": self.results_per_page}
        url = f"{self.base_url.rstrip('/')}/places"
        # An API does not redirect; following a redirect would be a second, uncounted request.
        return Request.post_json(url, body, auth=KEY, timeout=self.timeout, max_redirects=0)

    async def search(self, query: Query, fetch: Fetch) -> Outcome:
        response = await fetch(self.request(query))
        if response.status != 200:
            return refused(response)
        page = read_page(response)
        full = len(page.rows) >= self.results_per_page
        return Done(
            records=records(page, query, response),
            cost=page.credits,
            skip=() if full else query.later_pages(f"early_exit_page{query.page}_lt{self.results_per_page}"),
            facts=facts(response, results_count=len(page.rows)),
        )
