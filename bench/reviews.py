"""Reviews (RV-12): accepting jobs, latency against the critical path, publishing to Kafka, memory with many jobs.

Every row of the specification's performance table is a figure. Ratios of one run decide; the absolute figures are
reported. Kafka is a real broker where `scripts/setup kafka` has fetched one, otherwise librdkafka's mock cluster.
"""

import contextlib
import json
import secrets
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from bench.support.machine import Machine
from bench.support.options import Options, parse
from bench.support.peers import ROOT
from bench.support.pressed_api import WITHOUT, api, press_in_turn
from bench.support.reviews import Hosts, google
from bench.support.reviews_run import ReviewsRun
from bench.support.stores import Stores
from bench.support.verdict import Target, conclude, print_table
from forager.sinks.kafka.cluster import KafkaCluster
from tests.support.kafka import MockCluster
from tests.support.kafka_broker import Broker, why_none

TOKEN = json.dumps({"access_token": "sandbox-bench"})
ACCEPTED = 6_000
LATENCIES = {"accounts": 200, "locations": 500, "reviews": 1_000}
PATH = sum(LATENCIES.values()) / 1000
"""The critical path of a job in seconds: one page of each stage."""
ONE_PAGE = {"accounts": 1, "empty_accounts": 0, "locations": 20, "shared_every": 0, "reviews": [[1.0, 10, 40]]}
MANY = {"accounts": 4, "empty_accounts": 0, "locations": 600, "shared_every": 0, "reviews": [[1.0, 40, 60]]}
NOTHING = {"accounts": 1, "empty_accounts": 0, "locations": 0}
TARGETS = (
    Target("api_share", at_least=0.7),
    Target("latency_ratio", at_most=1.2),
    Target("kafka_share", at_least=0.8),
    Target("share_with_sink", at_least=0.9),
    Target("memory_growth", at_most=1.2),
)


def main(options: Options) -> None:
    machine = Machine()
    found: dict[str, list[float]] = defaultdict(list)
    with Stores(options.stores) as stores, kafka() as (brokers, which):
        print(f"reviews: {options.rounds} rounds; Kafka: {which}")
        for number in range(1, options.rounds + 1):
            machine.sample()
            for part in (accept, dispatch, latency, publish, memory):
                figures = part(stores, options, brokers)
                for name, value in figures.items():
                    found[name].append(value)
                said = ", ".join(f"{name} {value:,.3g}" for name, value in figures.items())
                print(f"  round {number}: {said}", flush=True)
        machine.sample()
    medians = {name: round(statistics.median(values), 3) for name, values in found.items()}
    print_table(("figure", "median"), [(name, f"{value:,g}") for name, value in sorted(medians.items())])
    conclude("reviews", medians, TARGETS, machine)


@contextlib.contextmanager
def kafka() -> Iterator[tuple[dict[str, Any], str]]:
    """The settings that publish to a broker, and which it is."""
    if why_none() is None:
        broker = Broker()
        broker.start()
        try:
            KafkaCluster(broker.brokers).producer("warm-up").init_transactions(
                30
            )  # a new broker makes its own topics first
            yield {"kafka_brokers": broker.brokers}, "a real broker, one node"
        finally:
            broker.close()
    else:
        yield {"kafka_brokers": MockCluster().brokers, "kafka_partitions": 0}, "librdkafka's mock cluster"


# ── accepting ──


def accept(stores: Stores, options: Options, _: Mapping[str, Any]) -> dict[str, float]:
    """Jobs per second that the route accepts, with a store and without one, in turn."""
    jobs = ACCEPTED // 6 if options.quick else ACCEPTED
    with contextlib.ExitStack() as stack:
        urls: dict[str, str] = {kind: stack.enter_context(api(stores.new(kind), "reviews")) for kind in stores.kinds}
        urls[WITHOUT] = stack.enter_context(api(stores.new("sqlite"), "reviews", with_store=False))
        taken = press_in_turn(stores, urls, jobs, "/api/v1/review-fetch", TOKEN)
    rates = {name: jobs / seconds for name, seconds in taken.items()}
    shares = {name: rates[name] / rates[WITHOUT] for name in stores.kinds}
    default = "sqlite" if "sqlite" in shares else stores.kinds[0]
    told = {f"{name}_accepted_per_s": rates[name] for name in stores.kinds}
    others = {f"{name}_api_share": share for name, share in shares.items() if name != default}
    return {"api_share": shares[default], "accepted_per_s": rates[default], **told, **others}


# ── the engine ──


def measure(stores: Stores, hosts: Hosts, *, jobs: int = 1, settings: Mapping[str, Any] | None = None) -> ReviewsRun:
    store = stores.new(stores.kinds[0])
    stores.settle()
    at = {"kind": store.kind, "home": str(store.home), "url": store.url}
    request = {**at, "hosts": dict(hosts), "jobs": jobs, "settings": dict(settings or {})}
    command = [sys.executable, "-m", "bench.support.reviews_run", json.dumps(request)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    stores.drop(store)
    return ReviewsRun(**json.loads(done.stdout.splitlines()[-1]))


def dispatch(stores: Stores, options: Options, _: Mapping[str, Any]) -> dict[str, float]:
    """Creating jobs in batches, and jobs per second from the queue through their first page."""
    jobs = 500 if options.quick else 5_000
    with google(default=NOTHING) as hosts:
        run = measure(stores, hosts, jobs=jobs)
    return {"enqueued_per_s": jobs / run.enqueued, "dispatched_per_s": jobs / run.seconds}


def latency(stores: Stores, options: Options, _: Mapping[str, Any]) -> dict[str, float]:
    """A job of one page of accounts, one of locations, and one of reviews for each of 20 locations."""
    with contextlib.ExitStack() as stack:
        worlds = {
            name: stack.enter_context(google(default=ONE_PAGE, latency_ms=float(ms))) for name, ms in LATENCIES.items()
        }
        run = measure(stores, {name: hosts[name] for name, hosts in worlds.items()})
    return {"latency_ratio": run.seconds / PATH, "job_seconds": run.seconds}


def publish(stores: Stores, options: Options, brokers: Mapping[str, Any]) -> dict[str, float]:
    """One job without the sink, and one with it: what the engine keeps of its speed, and what reaches the topic."""
    world = {**MANY, "locations": MANY["locations"] if not options.quick else 100}
    with google(default=world) as hosts:
        bare = measure(stores, hosts)
        topic = {"kafka_topic_prefix": f"bench-{secrets.token_hex(4)}-", "kafka_name": secrets.token_hex(8)}
        told = measure(stores, hosts, settings={**brokers, **topic})
    assert told.published is not None
    return {
        "kafka_share": told.records / told.published / bare.per_s,
        "share_with_sink": told.per_s / bare.per_s,
        "records_per_s": bare.per_s,
        "published_per_s": told.records / told.published,
    }


def memory(stores: Stores, options: Options, _: Mapping[str, Any]) -> dict[str, float]:
    """The same work in 10 jobs and in 100 jobs at once."""
    size = 30 if options.quick else 60
    with google(default={**ONE_PAGE, "locations": size}) as hosts:
        few, many = (measure(stores, hosts, jobs=jobs) for jobs in (10, 100))
    return {"memory_growth": many.peak_mb / few.peak_mb, "peak_mb": many.peak_mb}


if __name__ == "__main__":
    main(parse(__doc__))
