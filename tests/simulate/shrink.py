"""Makes a failing plan shorter: leaves out faults, jobs, acts and sinks, and makes jobs smaller, as long as it still
fails in the same way."""

import re
from collections.abc import Callable
from dataclasses import replace

from tests.simulate.plan import Plan
from tests.simulate.run import Result

MOST_TRIES = 120


def shrink(plan: Plan, failed: Result, again: Callable[[Plan], Result], most: int = MOST_TRIES) -> tuple[Plan, Result]:
    """Return the shortest plan found in at most this number of tries, and its result. `again` simulates a plan."""
    wanted, tries = kind_of(failed), 0

    def still(smaller: Plan) -> Result | None:
        nonlocal tries
        tries += 1
        result = again(smaller) if tries <= most else None
        return result if result is not None and kind_of(result) == wanted else None

    size = max(1, len(plan.parts) // 2)
    while size:
        start = 0
        while start < len(plan.parts):
            smaller = plan.without(set(plan.parts[start : start + size]))
            if (result := still(smaller)) is not None:
                plan, failed = smaller, result
            else:
                start += size
        size //= 2
    for change in (_smaller_jobs, _in_order):
        smaller = change(plan)
        if smaller != plan and (result := still(smaller)) is not None:
            plan, failed = smaller, result
    return plan, failed


def kind_of(result: Result) -> str | None:
    """Return the text of the first finding, without its time and its numbers; None without findings."""
    if not result.findings:
        return None
    said = re.sub(r"^(after death \d+|at the end): ", "", result.findings[0])
    return re.sub(r"-?\d+(\.\d+)?", "N", said)[:80]


def _smaller_jobs(plan: Plan) -> Plan:
    return replace(plan, jobs=tuple(replace(job, size=1) for job in plan.jobs))


def _in_order(plan: Plan) -> Plan:
    return replace(plan, shuffle=0.0)
