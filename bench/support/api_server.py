"""The API on a free port, with a store or without one: `python -m bench.support.api_server REQUEST`. Prints its URL.

Without the store everything else stays: HTTP, key, limits, validation, planning, envelope. The engine is not started:
creating jobs is what is measured, not doing them.
"""

import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvloop

from bench.support.places import places_app
from bench.support.reviews import reviews_app
from bench.support.stores import Store
from forager.api.serve import serve
from forager.cli.process import SWITCH_INTERVAL
from forager.core.ledger import NewJob, Submitted
from forager.core.task import Plan


class NoStore:
    """Accepts every job and stores none. Everything else goes to the ledger itself: clocks of tables, sign-ins."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def submit(self, job: NewJob, plan: Iterable[Plan]) -> Submitted:
        return Submitted(uuid4(), sum(1 for _ in plan), created=True)


async def main(request: dict[str, Any]) -> None:
    store = Store(request["kind"], Path(request["home"]), request["url"])
    opened = reviews_app(store) if request.get("pipeline") == "reviews" else places_app(store)
    async with opened as app:
        if not request["with_store"]:
            app.ledger = NoStore(app.ledger)  # the route uses no other verb
        async with serve(app, host="127.0.0.1", port=0, key=request["key"]) as url:
            print(url, flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the benchmark lets go


if __name__ == "__main__":
    sys.setswitchinterval(SWITCH_INTERVAL)  # as `forager up` does
    uvloop.run(main(json.loads(sys.argv[1])))
