"""`forager restore`: jobs and their queue from a mirror, into an empty ledger."""

from collections.abc import Callable
from dataclasses import dataclass

from forager.app.application import App
from forager.app.features import all_sinks
from forager.core.errors import Conflict, Rejected
from forager.core.upkeep import RestoredJob, resolved
from forager.sdk.delivery import RestoreSource

MOST_NAMED = 3


@dataclass(slots=True)
class Restored:
    """The result of a restore."""

    jobs: int = 0
    unfinished: int = 0
    tasks: int = 0
    queued: int = 0
    """Tasks that will run."""
    records: int = 0

    def add(self, job: RestoredJob) -> None:
        self.jobs += 1
        self.unfinished += not job.is_finished
        self.tasks += len(job.tasks)
        self.queued += job.counts["queued"]
        self.records += len(job.records)


async def restore(app: App, source: str, tell: Callable[[Restored], None] = lambda _: None) -> Restored:
    """Write every job of a mirror into the ledger, one transaction each; `tell` is called after every one. Jobs that an
    interrupted restore has written are left as they are. Raises `Conflict` if the ledger has other jobs, `NotFound`
    without a mirror, and `Rejected` for an unknown source."""
    mirror = _source(app, source)
    jobs = await mirror.job_ids()
    rows = await app.database.fetch("SELECT public_id FROM jobs ORDER BY id")
    if others := [row["public_id"] for row in rows if row["public_id"] not in set(map(str, jobs))]:
        named = ", ".join(others[:MOST_NAMED])
        raise Conflict(
            f"The ledger is not empty: it has jobs that the mirror does not have ({named}). Use a new store."
        )
    last, done = await mirror.last_numbers(), Restored()
    for each in jobs:
        job = await mirror.job(each)
        if await app.ledger.restore(job, last):
            done.add(resolved(job))
            tell(done)
    return done


def _source(app: App, name: str) -> RestoreSource:
    sources = {each.name: each.restores for each in all_sinks() if each.restores is not None}
    if name not in sources:
        raise Rejected(f"Jobs cannot be restored from {name!r}. Choose from: {', '.join(sorted(sources))}.")
    source: RestoreSource = sources[name].load()(app)
    return source
