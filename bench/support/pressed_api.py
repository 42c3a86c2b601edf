"""The API in a process of its own, and clients in another that create jobs through it as fast as it accepts them."""

import contextlib
import json
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping

from bench.support.peers import ROOT
from bench.support.stores import Store, Stores

CLIENTS = 64
SLICES = 8
KEY = secrets.token_urlsafe(32)
WITHOUT = "without the store"


@contextlib.contextmanager
def api(store: Store, pipeline: str | None = None, *, with_store: bool = True) -> Iterator[str]:
    """The URL of an API on this store, with the routes of a pipeline. It ends with the block."""
    request = {"kind": store.kind, "home": str(store.home), "url": store.url, "key": KEY, "with_store": with_store}
    if pipeline is not None:
        request["pipeline"] = pipeline
    command = [sys.executable, "-m", "bench.support.api_server", json.dumps(request)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the API did not start; what it said is above")
        yield url  # leaving the block closes its standard input, which ends it


def press_in_turn(stores: Stores, urls: Mapping[str, str], jobs: int, *request: str) -> dict[str, float]:
    """Return the seconds that each API takes to create this number of jobs. They are loaded in turn, a slice of the
    jobs at a time, because the speed of a shared machine changes within seconds. `request`: a path and a JSON body;
    without them, each job is one of places, with one task."""
    taken = dict.fromkeys(urls, 0.0)
    for _ in range(SLICES):
        for name, url in urls.items():
            stores.settle()
            taken[name] += _press(url, jobs // SLICES, *request)
    return taken


def _press(url: str, jobs: int, *request: str) -> float:
    command = [sys.executable, "-m", "bench.support.load", url, KEY, str(CLIENTS), str(jobs), *request]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return float(json.loads(done.stdout)["seconds"])
