"""The order in which test processes get their files: files that wait and files that compute run at the same time.

Tests with real processes wait for most of their time, and unit tests compute for all of it. If every test process first
took files of one kind and then of the other, the processors would be idle for the first half of a run and overloaded
for the second.
"""

import re

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

WAITING = ("tests/acceptance/", "tests/contract/runners/", "_kills.py", "tests/contract/sinks/")
"""Parts of the names of files that mostly wait: their tests start processes."""
LONG = (
    "tests/acceptance/test_cli.py",
    "tests/acceptance/test_prefect.py",
    "tests/acceptance/test_early_stop.py",
    "tests/acceptance/test_scrape.py",
    "tests/contract/runners/test_celery.py",
    "tests/contract/sinks/test_contract.py",
    "tests/unit/test_extract_hostile.py",
    "tests/contract/sites/test_sites_crawl.py",
    "tests/contract/listings/test_simulated_listings.py",
    "tests/contract/test_browser_ssrf.py",
    "tests/contract/test_browser_visits.py",
    "tests/contract/test_hostile_inputs.py",
    "tests/contract/test_fetch_bombs.py",
    "tests/contract/listings/test_freshness.py",
    "tests/contract/api/test_api_fuzz.py",
    "tests/property/test_scrape_jobs.py",
    "tests/contract/test_simulated_fortnight.py",
    "tests/contract/listings/test_dispatch.py",
    "tests/contract/scrape/test_scrape_refusals.py",
    "tests/migration/test_schema.py",
)
"""Files with more than 10 s of CPU time, in the order in which they go first. Started last, one of them would keep one
process busy while the others have no file left."""
_RUNNERS = "tests/contract/runners/"
_BROKER = re.compile(r"\[(embedded|redis|rabbitmq|kafka)\b")


class MixedScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Every second test process prefers files that wait, the others prefer the rest. None is idle while any is left.

    A file of the runners' contract is divided by broker. Its brokers, databases and workers are made for each of them
    anyway, and in one piece it would be the longest file.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        broker = _BROKER.search(nodeid) if file.startswith(_RUNNERS) else None
        return f"{file}[{broker[1]}]" if broker else file

    def remove_node(self, node: WorkerController) -> str | None:
        """Count the test at which a process died as run, so that the next process continues behind it.

        xdist puts it back into the queue: a test that crashes or hangs would then end one process after another, each
        after the whole limit for a test, and the run would never end. It is reported as failed in either case.
        """
        for tests in self.assigned_work.get(node, {}).values():
            for test, run in tests.items():
                if not run:
                    tests[test] = True
                    super().remove_node(node)
                    return str(test)
        super().remove_node(node)
        return None

    def _assign_work_unit(self, node: WorkerController) -> None:
        prefers_waiting = self.nodes.index(node) % 2 == 0
        preferred = [file for file in self.workqueue if _waits(file) == prefers_waiting]
        if (file := min(preferred, key=_rank, default=None)) is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def _waits(file: str) -> bool:
    return any(part in file for part in WAITING)


def _rank(file: str) -> int:
    """Return the position of a file that takes long; all others come after them."""
    name = file.partition("[")[0]
    return LONG.index(name) if name in LONG else len(LONG)
