"""The step of the places pipeline: the order of I/O for one query, and the outcome of each kind of answer. `parse.py`
reads the answer.

Nothing is retried, waited for or counted here: the engine acts on the outcome or the error.
"""

from dataclasses import dataclass

from forager.core.errors import Permanent, RateLimited, Transient
from forager.core.http import Fetch, Request, Response, SecretRef
from forager.core.outcome import Done, Halt, Outcome
from forager.core.states import ErrorType, Reason
from forager.pipelines.places.job import EARLY_EXIT, Query
from forager.pipelines.places.parse import CREDIT, error_message, facts, read_page, records

__all__ = ["API_KEY", "CREDIT", "REASONS", "Serper"]

QUERY_REFUSED = "query_refused"
REASONS = frozenset({EARLY_EXIT, QUERY_REFUSED})
API_KEY = "SERPER_API_KEY"
"""The name of the secret, not the secret."""
_KEY = SecretRef(API_KEY, header="X-API-KEY")


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
        return Request.post_json(url, body, auth=_KEY, timeout=self.timeout, max_redirects=0)

    async def search(self, query: Query, fetch: Fetch) -> Outcome:
        response = await fetch(self.request(query))
        if response.status != 200:
            return _refused(response)
        page = read_page(response)
        full = len(page.rows) >= self.results_per_page
        return Done(
            records=records(page, query, response),
            cost=page.credits,
            skip=() if full else query.later_pages(f"early_exit_page{query.page}_lt{self.results_per_page}"),
            facts=facts(response, results_count=len(page.rows)),
        )


def _refused(response: Response) -> Halt:
    """Return or raise the outcome of any status but 200 (PL-9): `Halt` if an operator must act, else `Transient` or
    `Permanent`."""
    status, message = response.status, error_message(response)
    if status in (401, 403):
        return Halt(
            f"Serper refused the API key ({status}: {message}). Set SERPER_API_KEY to a valid key and resume the job."
        )
    if status == 400 and "not enough credits" in message.lower():
        return Halt(
            f"The Serper account has no credits left ({status}: {message}). "
            "Buy credits, or set SERPER_API_KEY to an account that has some, and resume the job."
        )
    if status == 429:
        raise RateLimited(
            f"Serper asked for fewer requests (429: {message}).",
            retry_after=response.retry_after(),
            facts=facts(response),
        )
    if status >= 500:
        message, reason = f"Serper failed ({status}: {message}).", Reason.SERVER_ERROR
        raise Transient(message, facts=facts(response), reason=reason, error_type=ErrorType.HTTP)
    raise Permanent(
        f"Serper refused the query ({status}: {message}).",
        evidence=response.evidence(),
        facts=facts(response),
        reason=QUERY_REFUSED,
        error_type=ErrorType.HTTP,
    )
