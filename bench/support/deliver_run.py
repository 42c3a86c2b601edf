"""Deliveries in a process of their own: `python -m bench.support.deliver_run REQUEST`.

The request is a JSON object: a store, and one of `hosts` (a reviews job through the whole engine, with or without
sinks), `behind` (the number of changes that a files sink has not passed) and `each` (the number of changes that each of
several sinks has not passed, with the brokers of a mock cluster of Kafka and the URLs of a PostgreSQL database and a
ClickHouse server). The answer is one JSON line.
"""

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvloop

from bench.support.engine_run import peak_mb
from bench.support.reviews import all_ended, reviews_app
from bench.support.stores import Store
from forager.app.application import App
from forager.cli.process import SWITCH_INTERVAL
from forager.core.secret import Secret
from forager.core.sink import SinkRow
from forager.engine.deliver import SinkDelivery
from forager.pipelines.reviews.wiring import submit_token

DEAD = "http://127.0.0.1:9/"
"""The port `discard`, on which nothing listens."""
EACH = (
    SinkRow("files", "files"),
    SinkRow("csv", "files", options={"format": "csv"}),
    SinkRow("parquet", "files", options={"format": "parquet"}),
    SinkRow("duckdb", "duckdb"),
    SinkRow("postgres", "postgres"),
    SinkRow("clickhouse", "clickhouse"),
    SinkRow("kafka-mock", "kafka", kinds=frozenset({"job"}), options={"topic": "bench"}),
    SinkRow("hooks", "webhook", kinds=frozenset({"job"}), options={"url": DEAD}),
)
"""Sinks whose speed is reported. The webhook sink writes delivery tasks; sending them is the work of the engine. For a
receiver that accepts none it writes two batches and leaves the rest in the log."""
GROW = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO changes (id, kind, key, op, version, at, body)
SELECT i, 'job', 'k' || i, 'created', 1, 1773489600000 + i, '{"state":"queued","filler":"{filler}"}' FROM n
"""


@dataclass(frozen=True, slots=True)
class DeliverRun:
    changes: int
    seconds: float
    """Until the job had ended, or everything was delivered."""
    caught_up: float
    """Seconds that a files sink then took for the whole log; 0 if that was not requested."""
    peak_mb: float
    per_s: dict[str, float] = field(default_factory=dict)
    """Changes per second, by sink."""


async def run(store: Store, request: dict[str, Any]) -> DeliverRun:
    more: dict[str, Any] = {"files_folder": store.home / "files", "webhook_secret": "benchmark"}
    if "behind" in request:
        async with reviews_app(store, **more) as app:
            await _grow(app, request["behind"])
            seconds = await _catch_up(app)
            return DeliverRun(await _last(app), seconds, seconds, peak_mb())
    if "each" in request:
        more |= {"kafka_brokers": request["brokers"], "kafka_partitions": 0, "duckdb_folder": store.home / "duckdb"}
        more |= {"postgres_sink_url": request["postgres"], "clickhouse_url": request["clickhouse"]}
        async with reviews_app(store, egress_allow=(urlsplit(DEAD).netloc,), **more) as app:
            await _grow(app, request["each"])
            return DeliverRun(request["each"], 0.0, 0.0, peak_mb(), await _each(app))
    hosts: dict[str, str] = request["hosts"]
    if request.get("rate"):
        more |= {"google_requests_per_second": request["rate"], "ratelimit": {"CAPACITY": "10"}}
    more["egress_allow"] = tuple(urlsplit(url).netloc for url in (DEAD, *hosts.values()))
    async with reviews_app(store, hosts, **more) as app:
        if request["sinks"]:
            await app.roster.add(SinkRow("one", "files"))
            await app.roster.add(SinkRow("two", "files", options={"format": "csv"}))
            await app.roster.add(SinkRow("dead", "webhook", options={"url": DEAD}))
        made = await submit_token(app, Secret("sandbox-bench.0"))
        async with app.engine(schedules=False):
            started = time.perf_counter()
            await all_ended(app, [made.job])
            seconds = time.perf_counter() - started
        caught_up = 0.0 if request["sinks"] else await _catch_up(app)
        return DeliverRun(await _last(app), seconds, caught_up, peak_mb())


async def _grow(app: App, count: int) -> None:
    """Write a log of this number of changes, as jobs leave them."""
    await app.database.write(GROW.replace("{filler}", "x" * 300), {"count": count})
    await app.database.write("UPDATE tail SET change = :count", {"count": count})


async def _catch_up(app: App) -> float:
    """Deliver the whole log to a new files sink. Returns the seconds that this took."""
    await app.roster.add(SinkRow("late", "files"))
    return await _deliver(app, "late")


async def _each(app: App) -> dict[str, float]:
    """Changes per second that each sink takes, one after the other. What Elasticsearch and BigQuery take is a figure of
    their own."""
    for row in EACH:
        await app.roster.add(row)
    speeds = {}
    for name in (row.name for row in EACH):
        seconds = await _deliver(app, name, whole=name != "hooks")
        speeds[name] = (await app.sinks.position(name)).cursor / seconds
    return speeds


async def _deliver(app: App, sink: str, *, whole: bool = True) -> float:
    """Deliver the log to a sink. Returns the seconds that this took."""
    session = await app.ledger.begin("bench")
    delivery = SinkDelivery(app.ledger, app.sinks, app.deliveries[sink].sink, app.clock, lambda: session)
    started = time.perf_counter()
    if not await delivery.deliver_new() and whole:
        raise RuntimeError(f"the sink {sink} did not take the whole log")
    seconds = time.perf_counter() - started
    await app.ledger.end(session)
    return seconds


async def _last(app: App) -> int:
    return (await app.sinks.position("late")).last


def main(request: dict[str, Any]) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    store = Store(request["kind"], Path(request["home"]), request["url"])
    print(json.dumps(asdict(uvloop.run(run(store, request)))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
