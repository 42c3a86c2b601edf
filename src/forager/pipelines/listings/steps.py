"""The steps of a scrape once its run was started: wait for the run, read its cost.

The number of runs of a scrape is limited (LI-10): two more after a time-out, each with 1,200 s, and three more, after
60, 120 and 240 s, after a run that failed. Runs of one scrape are counted together.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from forager.core.errors import Permanent
from forager.core.http import Fetch, Response
from forager.core.outcome import Done, Outcome, Snooze
from forager.core.table import Effect
from forager.core.task import Plan
from forager.pipelines.listings.apify import SERVER, Apify, ApifyRun, facts_of
from forager.pipelines.listings.records import MarketScrape, SourceRun
from forager.pipelines.listings.tasks import FailScrape, OfRun, PollRun, ReadItems, RunCost, ScrapeCity

MORE_AFTER_TIME_OUT: Final = 2
LONGER: Final = 1_200
"""Time limit in seconds of a run after a time-out."""
GRACE: Final = 60.0
"""Seconds beyond a run's own time-out after which it is aborted: Apify should have ended it."""
UNITS_PER_USD: Final = 10_000
RUN_FAILED, RUN_TIMED_OUT, RUN_ABORTED = "run_failed", "run_timed_out", "run_aborted"
_LONGEST_POLL = 30.0


@dataclass(frozen=True, slots=True)
class RunSteps:
    """The steps that need nothing but Apify."""

    apify: Apify

    async def poll(self, task: PollRun, fetch: Fetch) -> Outcome:
        """Wait until the run has ended; then read its items, start another run, or fail the scrape."""
        run, response = await self.apify.run(fetch, task.run_id)
        took = (response.at - task.started_at).total_seconds()
        if run.status == "SUCCEEDED":
            return Done(
                tasks=[Plan(ReadItems(**task.about()))],
                cost=0,
                effects=_ended(task, run, response),
                facts=facts_of(response),
            )
        if run.has_ended:
            return self._unsuccessful(task, run, response)
        if took > task.timeout + GRACE:
            await self.apify.abort(fetch, task.run_id)
            return self._after_time_out(task, run, response)
        shortest = self.apify.first_poll.total_seconds() / 4
        return Snooze(min(max(took / 2, shortest), _LONGEST_POLL), f"The Apify run {run.id} is {run.status.lower()}.")

    async def run_cost(self, task: RunCost, fetch: Fetch) -> Outcome:
        """Read the cost of a run that did not succeed."""
        run, response = await self.apify.run(fetch, task.run_id)
        return Done(cost=units(run.cost_usd), effects=cost_effects(task, run), facts=facts_of(response))

    async def fail(self, task: FailScrape, _: Fetch) -> Outcome:
        """End the scrape as failed."""
        raise Permanent(task.message, reason=task.reason)

    def _unsuccessful(self, task: PollRun, run: ApifyRun, response: Response) -> Done:
        if run.status == "TIMED-OUT":
            return self._after_time_out(task, run, response)
        if run.status == "ABORTED":
            return self._give_up(task, run, response, RUN_ABORTED, "was aborted at Apify")
        if task.number > SERVER.limit:
            return self._give_up(task, run, response, RUN_FAILED, f"failed, as the {task.number - 1} before it did")
        return self._again(
            task, run, response, response.at + timedelta(seconds=SERVER.delay(task.number)), task.timeout
        )

    def _after_time_out(self, task: PollRun, run: ApifyRun, response: Response) -> Done:
        if task.number > MORE_AFTER_TIME_OUT:
            return self._give_up(task, run, response, RUN_TIMED_OUT, f"took longer than {task.timeout} s")
        return self._again(task, run, response, None, LONGER)

    def _again(self, task: PollRun, run: ApifyRun, response: Response, due: datetime | None, timeout: int) -> Done:
        another = ScrapeCity(scrape=task.scrape, number=task.number + 1, timeout=timeout)
        return Done(
            tasks=[Plan(another, due=due), self._cost_later(task, response)],
            cost=0,
            effects=_ended(task, run, response),
            facts=facts_of(response),
        )

    def _give_up(self, task: PollRun, run: ApifyRun, response: Response, reason: str, what: str) -> Done:
        """The job fails after the cost of its last run is known, so that no cost is lost."""
        again = f"Scrape again with `forager markets scrape {task.scrape.market_id}`."
        message = f"The Apify run {run.id} for {task.scrape.search} {what}. {again}"
        failure = FailScrape(scrape=task.scrape, reason=reason, message=message)
        return Done(
            tasks=[self._cost_later(task, response), Plan(failure)],
            cost=0,
            effects=_ended(task, run, response),
            facts=facts_of(response),
        )

    def _cost_later(self, task: PollRun, response: Response) -> Plan:
        return Plan(RunCost(**task.about()), due=response.at + self.apify.cost_is_final)


def units(usd: Decimal | None) -> int:
    """Return an amount in the units of a job's cost: ten-thousandths of a US dollar."""
    return round((usd or Decimal(0)) * UNITS_PER_USD)


def cost_effects(task: OfRun, run: ApifyRun) -> list[Effect]:
    """The final cost, on the run and on the scrape."""
    cost = Decimal(units(run.cost_usd)) / UNITS_PER_USD
    return [
        Effect(SourceRun, {"id": run.id}, set={"status": run.status, "cost_usd": cost}),
        Effect(MarketScrape, {"id": task.scrape.id}, add={"cost_usd": cost}),
    ]


def _ended(task: OfRun, run: ApifyRun, response: Response) -> list[Effect]:
    return [
        Effect(SourceRun, {"id": run.id}, set={"status": run.status}),
        Effect(MarketScrape, {"id": task.scrape.id}, add={"api_ms": response.elapsed_ms}),
    ]
