"""How the pipeline of watches is built."""

from forager.core.errors import FieldError, Rejected
from forager.core.pipeline import Pipeline
from forager.pipelines.watches import pipeline
from forager.pipelines.watches.pipeline import WatchJob
from forager.pipelines.watches.records import PageWatch
from forager.sdk.queries import one_row
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree


def build(_: SettingsTree) -> Pipeline:
    return pipeline.build()


async def with_address(service: Service, job: WatchJob) -> WatchJob:
    """Return the job with the address of its watch. Raises `Rejected` if there is no such watch."""
    row = await one_row(service.database, PageWatch, name=job.watch)
    if row is None:
        problem = f"there is no watch {job.watch[:100]!r}; see `forager watch list`"
        raise Rejected("The job is not valid.", fields=[FieldError("watch", problem)])
    return job.model_copy(update={"url": row.url})
