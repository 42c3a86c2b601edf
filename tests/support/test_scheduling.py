"""Tests of the order of files: what happens to the rest of a file when its process dies."""

from collections import OrderedDict
from typing import Any

from tests.support.scheduling import MixedScheduling

FILE = "tests/unit/test_one.py"


def test_a_test_that_ended_its_process_is_not_run_again_and_its_file_continues() -> None:
    scheduling: Any = MixedScheduling.__new__(MixedScheduling)
    scheduling.workqueue = OrderedDict()
    scheduling.assigned_work = {"gone": {FILE: {"first": True, "crashes": False, "last": False}}}
    assert scheduling.remove_node("gone") == "crashes"
    assert scheduling.workqueue == {FILE: {"first": True, "crashes": True, "last": False}}


def test_a_process_that_ran_all_its_tests_reports_no_crash() -> None:
    scheduling: Any = MixedScheduling.__new__(MixedScheduling)
    scheduling.workqueue = OrderedDict()
    scheduling.assigned_work = {"done": {FILE: {"first": True}}}
    assert scheduling.remove_node("done") is None
    assert not scheduling.workqueue
