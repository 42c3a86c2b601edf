"""`run_celery.py BROKER COUNT CHILDREN`: no-op tasks through plain Celery, sent and done. Prints one JSON line.

Tuned as its guide to optimising advises for short tasks: no results, no events, early acknowledgement, transient
messages, and many messages fetched ahead. Tasks are sent while the children work.
"""

# mypy: ignore-errors
# (the library has no types)

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from celery import Celery
from kombu import Connection

QUEUE = "plain"
END = "plain-ended"


def new_app(broker: str) -> Any:
    app = Celery("plain", broker=broker)
    app.conf.update(
        task_ignore_result=True,
        task_default_queue=QUEUE,
        task_default_delivery_mode=1,
        worker_prefetch_multiplier=128,
        worker_send_task_events=False,
    )

    @app.task(name="noop")
    def noop(n: int) -> None:
        return

    @app.task(name="end")
    def end() -> None:
        with Connection(broker) as connection:
            connection.SimpleQueue(END).put("ended")

    return app


def main(broker: str, count: int, children: int) -> None:
    app = new_app(broker)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "ERROR"]
    command = [sys.executable, str(Path(__file__)), broker, "worker", "-c", str(children), *quiet]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        try:
            _ended(app, broker)  # it has started
            started = time.perf_counter()
            with app.producer_pool.acquire() as producer:
                for n in range(count):
                    app.tasks["noop"].apply_async((n,), producer=producer)
            _ended(app, broker)
            seconds = time.perf_counter() - started
        finally:
            worker.terminate()
    print(json.dumps({"seconds": seconds}), flush=True)


def _ended(app: Any, broker: str) -> None:
    """Send a last task and wait until it is done. Others may still run in the other children, for a moment."""
    app.tasks["end"].apply_async()
    with Connection(broker) as connection:
        connection.SimpleQueue(END).get(timeout=600)


if __name__ == "__main__":
    if sys.argv[2] == "worker":
        new_app(sys.argv[1]).worker_main(sys.argv[2:])
    else:
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
