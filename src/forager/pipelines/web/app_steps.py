"""The step that hands the first results of a search over to a scrape job."""

from collections.abc import Mapping

from forager.core.errors import Permanent, Rejected
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import StepFunction
from forager.core.table import Effect
from forager.extract.serper import QUERY_REFUSED
from forager.pipelines.web.job import ReadHits, WebReading
from forager.sdk.service import Service


def app_steps(service: Service) -> Mapping[str, StepFunction]:
    """Return the function of the step that creates the scrape job, by kind of task."""

    async def read(task: ReadHits, _: Fetch) -> Outcome:
        """Create the scrape job. Its idempotency key is the search, so that a repeated attempt finds the same job."""
        try:
            made = await service.submit(
                "scrape", {"targets": task.targets, "source": "web search"}, key=f"web-{task.search}"
            )
        except Rejected as error:
            wrong = "; ".join(f"{each.field}: {each.message}" for each in error.fields) or error.message
            raise Permanent(f"The results cannot be read: {wrong}.", reason=QUERY_REFUSED) from error
        noted = Effect(WebReading, {"search": task.search}, set={"job": str(made.job)}, insert=True)
        return Done(effects=[noted], cost=0)

    return {ReadHits.kind: read}
