"""The methods of the API, once a call may be made: runs are started, polled, listed, aborted, and their items read."""

import time
from collections.abc import Callable
from typing import Any

import orjson

from forager.sandbox.apify import errors, shapes
from forager.sandbox.apify.config import ApifyConfig, RunRule
from forager.sandbox.apify.datasets import page_of_items
from forager.sandbox.apify.inputs import actor_named, problem_of
from forager.sandbox.apify.routes import Asked
from forager.sandbox.apify.rows import Rows
from forager.sandbox.apify.run_list import page_of_runs
from forager.sandbox.apify.runs import TERMINAL, Run, affordable
from forager.sandbox.apify.starts import Start, read_start
from forager.sandbox.calls import Call
from forager.sandbox.draw import chance
from forager.sandbox.listings.world import ListingsWorld
from forager.sandbox.script import Script
from forager.sandbox.upstream import Reply
from forager.sandbox.wire import JSON
from forager.sandbox.world_time import WorldTime

_SYNC_SECONDS = 300.0
_LAG = 5.0
_TEXT = b"text/plain; charset=utf-8"


class Methods:
    """Holds the runs. Their progress is computed from the time whenever it is asked for."""

    def __init__(
        self, config: ApifyConfig, world: ListingsWorld, world_time: WorldTime, site_port: Callable[[], int]
    ) -> None:
        self.config = config
        self.runs: dict[str, Run] = {}
        self.script: Script[RunRule] = Script(config.runs)
        self._rows = Rows(world, config)
        self._time = world_time
        self._site_port = site_port
        self._datasets: dict[str, str] = {}
        self._stores: dict[str, str] = {}
        self._active: dict[str, list[Run]] = {}
        self._started = 0

    def carry_out(self, asked: Asked, tenant: str, call: Call, now: float) -> Reply:
        """Answer a call that passed authentication and limits. `tenant` is empty without a token."""
        if asked.operation in ("runs.start", "runs.sync"):
            return self._start(asked, tenant, now)
        if asked.operation == "runs.list":
            return self._list(asked, tenant, call)
        run = self._find(asked)
        if run is None or (tenant and run.tenant != tenant):
            return errors.no_record()
        return self._of_run(asked, run, call, now, with_usage=bool(tenant))

    def _of_run(self, asked: Asked, run: Run, call: Call, now: float, *, with_usage: bool) -> Reply:
        moment = self._time.seconds()
        match asked.operation:
            case "runs.get":
                return self._when_ended(run, _seconds(asked), now, lambda: self._shown(run, with_usage=with_usage))
            case "runs.abort":
                run.abort(moment, graceful=asked.query.get("gracefully", "").lower() in ("1", "true"))
                return self._shown(run, with_usage=True)
            case "runs.delete":
                return self._delete(run, moment)
            case "runs.log":
                return Reply(200, f"{shapes.time_text(run.started)} ACTOR: Starting\n".encode(), _TEXT)
            case "dataset.get":
                lagging = run.state(moment - _LAG, self.config)
                return _data(shapes.dataset_whole(run, lagging, moment, self.config))
            case "dataset.items" | "run.items":
                return self._items(run, asked.query, call)
            case _:
                return Reply(200, run.input_body, JSON) if asked.record == "INPUT" else errors.no_record()

    def _start(self, asked: Asked, tenant: str, now: float) -> Reply:
        actor = actor_named(asked.subject)
        if actor is None:
            return errors.no_actor()
        if not isinstance(asked.sent, dict):
            return errors.error(400, "run-input-body-not-valid-json", "The body of the run input is not valid JSON.")
        problem = problem_of(actor, asked.sent)
        if problem is not None:
            return errors.invalid_input(problem)
        start = read_start(asked.query, self.config)
        if isinstance(start, Reply):
            return start
        refused = self._refused(tenant, start)
        if refused is not None:
            return refused
        run = self._started_run(actor, tenant, asked, start)
        if asked.operation == "runs.sync":
            return self._synchronous(run, asked, now)
        shown = lambda: self._shown(run, status=201, with_usage=True)  # noqa: E731 - given to two callers
        return self._when_ended(run, _seconds(asked), now, shown)

    def _refused(self, tenant: str, start: Start) -> Reply | None:
        moment = self._time.seconds()
        active = [run for run in self._active.get(tenant, ()) if run.state(moment, self.config).status not in TERMINAL]
        self._active[tenant] = active
        if len(active) >= self.config.most_runs:
            return errors.too_many_runs(self.config.too_many_runs_status, self.config.most_runs)
        if sum(run.memory for run in active) + start.memory > self.config.memory_limit_mb:
            return errors.no_memory(self.config.memory_limit_mb)
        credit = self.config.credit_usd
        if credit is None:
            return None
        spent = sum(run.state(moment, self.config).cost for run in self.runs.values() if run.tenant == tenant)
        return errors.no_credit() if spent >= credit else None

    def _started_run(self, actor: str, tenant: str, asked: Asked, start: Start) -> Run:
        config, moment = self.config, self._time.seconds()
        self._started += 1
        key = shapes.make_id(config.seed, "run", self._started)
        rule = self.script.take(lambda rule: rule.matches(asked.search)) or RunRule()
        usual = config.run_seconds * (0.5 + chance(config.seed, "duration", self._started)) + config.queue_seconds
        rows = 0 if rule.outcome == "empty" else int(self._rows.count(asked.sent, moment) * rule.share + 1e-6)
        if rule.outcome == "placeholder":
            rows = max(rows, 1)
        if start.max_charge is not None:
            rows = affordable(start.max_charge, rows, config)
        run = Run(
            self._started, key, actor, tenant, asked.sent, asked.body or b"{}", moment,
            usual if rule.seconds is None else rule.seconds, rule.outcome, rows, rule.bad_every,
            start.timeout, start.memory, start.max_items, start.max_charge, user_agent=asked.user_agent,
        )  # fmt: skip
        self.runs[key] = run
        self._active.setdefault(tenant, []).append(run)
        self._datasets[shapes.make_id(config.seed, "dataset", key)] = key
        self._stores[shapes.make_id(config.seed, "store", key)] = key
        if len(self.runs) > config.keep_runs:
            self._forget(next(iter(self.runs)))
        return run

    def _synchronous(self, run: Run, asked: Asked, now: float) -> Reply:
        def ended() -> Reply:
            state = run.state(self._time.seconds(), self.config)
            if state.status not in TERMINAL:
                return errors.run_timeout()
            reply, _ = page_of_items(state.items, self._row_of(run), asked.query)
            reply.status = 201
            return reply

        return self._when_ended(run, _SYNC_SECONDS, now, ended)

    def _when_ended(self, run: Run, seconds: float, now: float, answer: Callable[[], Reply]) -> Reply:
        """The answer once the run has ended or the time is over, in the world's time or in real time."""
        until = self._time.seconds() + seconds

        def ready() -> Reply | None:
            moment = self._time.seconds()
            ended = run.state(moment, self.config).status in TERMINAL
            return answer() if ended or moment >= until or time.monotonic() >= now + seconds else None

        return ready() or Reply(0, later=ready)

    def _list(self, asked: Asked, tenant: str, call: Call) -> Reply:
        actor = actor_named(asked.subject)
        if actor is None:
            return errors.no_actor()
        runs = (run for run in self.runs.values() if run.tenant == tenant and run.actor == actor)
        page = page_of_runs(runs, asked.query, asked.page, self._time.seconds(), self.config)
        if page is None:
            return errors.invalid_value("startedAfter and startedBefore must be dates in ISO 8601")
        call.items = page["count"]
        return _data(page)

    def _items(self, run: Run, query: dict[str, str], call: Call) -> Reply:
        state = run.state(self._time.seconds(), self.config)
        reply, call.items = page_of_items(state.items, self._row_of(run), query)
        return reply

    def _row_of(self, run: Run) -> Callable[[int], dict[str, Any]]:
        port = self._site_port()
        return lambda number: self._rows.row(run, number, port)

    def _shown(self, run: Run, *, status: int = 200, with_usage: bool) -> Reply:
        moment = self._time.seconds()
        state = run.state(moment, self.config)
        reply = _data(shapes.run_whole(run, state, moment, self.config, with_usage=with_usage), status)
        if status == 201:
            reply.headers = f"Location: https://api.apify.com/v2/actor-runs/{run.id}\r\n".encode()
        return reply

    def _delete(self, run: Run, moment: float) -> Reply:
        if run.state(moment, self.config).status not in TERMINAL:
            return errors.error(400, "invalid-request", "Only finished runs can be deleted.")
        self._forget(run.id)
        return Reply(204)

    def _find(self, asked: Asked) -> Run | None:
        if asked.operation.startswith("dataset."):
            return self.runs.get(self._datasets.get(asked.subject, ""))
        if asked.operation == "store.record":
            return self.runs.get(self._stores.get(asked.subject, ""))
        return self.runs.get(asked.subject)

    def _forget(self, run_id: str) -> None:
        del self.runs[run_id]
        self._datasets.pop(shapes.make_id(self.config.seed, "dataset", run_id), None)
        self._stores.pop(shapes.make_id(self.config.seed, "store", run_id), None)


def _seconds(asked: Asked) -> float:
    text = asked.query.get("waitForFinish", "0")
    return float(min(60, int(text))) if text.isdigit() else 0.0


def _data(value: Any, status: int = 200) -> Reply:
    return Reply(status, orjson.dumps({"data": value}))
