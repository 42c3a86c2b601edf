"""Counts the hostile inputs that each test of the suite tries: `python -m scripts.security` prints the sums.

A list of inputs is passed through `tried` where it is made. Loaded as a pytest plug-in (`-p tests.support.attempts`),
this module adds the number to the report of the test that was running.
"""

import os
from collections import Counter
from collections.abc import Sized
from typing import TypeVar

import pytest

Inputs = TypeVar("Inputs", bound=Sized)
PROPERTY = "hostile inputs"

_counted: Counter[str] = Counter()
"""Inputs by test, as pytest names it."""


def tried(inputs: Inputs) -> Inputs:
    """Count these inputs for the test that runs now, and return them."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    _counted[test] += len(inputs)
    return inputs


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):  # type: ignore[no-untyped-def]
    """Add the number to the report of the call. A test that made no list tried one input."""
    report = yield
    if report.when == "call":
        report.user_properties.append((PROPERTY, _counted.pop(item.nodeid, 1)))
    return report
