"""Polls the readiness of a service 20 times a second: `python -m bench.support.readiness_probe URL`.

Prints a line when it begins. When its input ends, it prints as one JSON line: the slowest answer, the 99th percentile,
the number of answers, and those that were not "ready" with the last reason. It is a process of its own, so that it
waits for the service and not for its own loop.
"""

import json
import sys
import threading
import time
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

EVERY = 0.05


def main(url: str) -> None:
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    connection = HTTPConnection(urlsplit(url).netloc, timeout=60)
    waits: list[float] = []
    refused: list[str] = []
    print("asking", flush=True)
    while not over.wait(EVERY):
        began = time.perf_counter()
        connection.request("GET", "/readiness")
        answer = connection.getresponse()
        said = answer.read()
        waits.append((time.perf_counter() - began) * 1_000)
        if answer.status != 200:
            refused.append(said.decode()[:1_000])
    waits.sort()
    told: dict[str, Any] = {"worst_ms": waits[-1], "p99_ms": waits[int(len(waits) * 0.99)], "asked": len(waits)}
    told |= {"not_ready": len(refused), "why": refused[-1:]}
    print(json.dumps(told), flush=True)


def _wait_for_end(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    main(sys.argv[1])
