"""Fixtures for the loop that delivers to sinks."""

import pytest

from forager.core.ledger import Session
from forager.ledger.tables.sinks import SinkTable
from tests.support.deliveries import sink_table
from tests.support.rig import Rig


@pytest.fixture
def sinks(rig: Rig) -> SinkTable:
    return sink_table(rig.ledger)


@pytest.fixture
async def session(rig: Rig) -> Session:
    return await rig.ledger.begin("deliverer")
