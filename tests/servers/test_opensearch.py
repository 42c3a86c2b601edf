"""The Elasticsearch sink and the product search on a real cluster: the same tests that the stand-in passes.

The stand-in has neither real analysers nor real versions; what depends on them is shown here.
"""

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.contract.products import test_search
from tests.contract.sinks import test_contract, test_elasticsearch, test_search_rebuild
from tests.contract.sinks.conftest import rig as rig
from tests.contract.sinks.test_elasticsearch import index as index
from tests.support import elastic
from tests.support.engine import EngineRig
from tests.support.search_backends import InCluster, OpenSearchShop, shops
from tests.support.sink_suite import Member, open_store
from tests.support.sink_suite import member as member_named

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


def shared(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The tests of a module that any cluster can pass: they break none, and are for no certain store."""
    tests = {name: each for name, each in vars(module).items() if name.startswith("test_")}
    return {
        name: each
        for name, each in tests.items()
        if not hasattr(each, "pytestmark") and "cluster" not in inspect.signature(each).parameters
    }


for module in (test_search, test_contract, test_elasticsearch, test_search_rebuild):
    globals().update(shared(module))


@pytest.fixture
async def shop_of(opensearch: str, tmp_path: Path) -> AsyncIterator[OpenSearchShop]:
    async with AsyncExitStack() as stack:
        yield shops(stack, InCluster(opensearch), tmp_path)


@pytest.fixture
def member(opensearch: str, tmp_path: Path) -> Member:
    (tmp_path / elastic.CLUSTER).write_text(opensearch)
    return member_named("elasticsearch")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
async def engine(opensearch: str, tmp_path: Path) -> AsyncIterator[EngineRig]:
    (tmp_path / elastic.CLUSTER).write_text(opensearch)
    opened = await open_store(str(tmp_path))
    yield opened
    await opened.close()
