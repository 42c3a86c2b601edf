"""The CPU time of a call, for tests that compare two of them: a ratio also holds on a slow or busy machine."""

import time
from collections.abc import Callable


def cpu_ns(call: Callable[[], object], *, times: int = 5) -> int:
    """Return the CPU time of the fastest of several calls, in nanoseconds (at least 1)."""
    taken = []
    for _ in range(times):
        began = time.process_time_ns()
        call()
        taken.append(time.process_time_ns() - began)
    return max(1, min(taken))
