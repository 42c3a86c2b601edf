"""Rebuilds of an external index, beside a running sink: nothing is lost, whoever is interrupted when."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forager.core.errors import Conflict, ServiceAway, Transient
from forager.sinks.elasticsearch import rebuild
from forager.sinks.elasticsearch.search import ElasticIndex
from tests.contract.sinks.test_elasticsearch import alias_of, sizes, things
from tests.contract.sinks.test_elasticsearch import cluster as cluster
from tests.contract.sinks.test_elasticsearch import engine as engine
from tests.contract.sinks.test_elasticsearch import index as index
from tests.support import elastic
from tests.support.elastic_standin import StandIn
from tests.support.engine import EngineRig
from tests.support.sink_suite import log_of, make_changes


async def test_a_rebuild_while_a_sink_runs_loses_nothing_and_is_searchable_all_the_time__PR_19(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "AT_ONCE", 2)
    await make_changes(engine.ledger, 5)
    await index.ready()
    first = elastic.ask(elastic.url_of(tmp_path), "GET", f"/_alias/{alias_of(tmp_path)}")
    writer = elastic.index_at(engine.ledger, tmp_path)
    seen = len(await things(engine))
    left = await index.rebuild(2)
    parts = 1
    while left:
        assert set(sizes(tmp_path)) >= {f"thing/new-{number}" for number in range(5)}
        if parts < 4:
            await make_changes(engine.ledger, 5 + parts)
        changes = await things(engine)
        await writer.put(changes[seen:])  # the sink continues with the index that the alias names
        seen = len(changes)
        left = await index.rebuild(4, go_on=True)
        parts += 1
        assert parts < 100
    assert parts > 4
    assert set(sizes(tmp_path)) == {identity for identity, _ in elastic.wanted(await things(engine))}
    await index.put(await things(engine))
    assert sizes(tmp_path).keys() == dict(elastic.wanted(await things(engine))).keys()
    second = elastic.ask(elastic.url_of(tmp_path), "GET", f"/_alias/{alias_of(tmp_path)}")
    assert list(first) == [f"{alias_of(tmp_path)}-000001"]
    assert list(second) == [f"{alias_of(tmp_path)}-000002"]
    assert elastic.ask(elastic.url_of(tmp_path), "GET", f"/{alias_of(tmp_path)}-000001/_mapping") is None
    await writer.close()


@asynccontextmanager
async def late_change(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dies: bool = False
) -> AsyncIterator[None]:
    """One change, and while a rebuild moves the alias a second one, which a sink writes to the index before. A rebuild
    that dies does so after the move."""
    await make_changes(engine.ledger, 1)
    await index.ready()
    writer = elastic.index_at(engine.ledger, tmp_path)
    await writer.ready()
    move = index._alias.move_to

    async def late(target: str) -> None:
        await make_changes(engine.ledger, 2)
        await writer.put(await things(engine))
        await move(target)
        if dies:
            raise Transient("the process dies here")

    monkeypatch.setattr(index._alias, "move_to", late)
    yield
    await writer.close()


async def test_changes_that_the_sink_wrote_to_the_index_before_are_in_the_new_one__PR_19(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with late_change(engine, index, tmp_path, monkeypatch):
        began = len(await log_of(engine.ledger))
        assert await index.rebuild(1_000) == 0
        wanted = dict(elastic.wanted(await things(engine)))
        assert wanted["thing/new-1"] > began
        assert sizes(tmp_path) == {identity: max(began, change) for identity, change in wanted.items()}


async def test_a_rebuild_that_dies_after_the_alias_has_moved_is_completed_at_the_next_start__PR_19(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with late_change(engine, index, tmp_path, monkeypatch, dies=True):
        with pytest.raises(ServiceAway):
            await index.rebuild(1_000)
        assert "thing/new-1" not in sizes(tmp_path)
        heir = elastic.index_at(engine.ledger, tmp_path)
        await heir.ready()
        assert set(sizes(tmp_path)) == {"thing/known", "thing/new-0", "thing/new-1"}
        assert await engine.ledger.database.fetch("SELECT alias FROM search_rebuilds") == []
        await heir.close()


async def test_a_rebuild_that_stood_still_until_its_changes_were_pruned_starts_again(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "AT_ONCE", 2)
    await make_changes(engine.ledger, 4)
    assert await index.rebuild(2) > 0
    await make_changes(engine.ledger, 5)  # `known`, which the rebuild has read already, changes again
    await engine.ledger.database.write("DELETE FROM changes")
    while await index.rebuild(2, go_on=True):
        pass
    assert list(elastic.ask(elastic.url_of(tmp_path), "GET", f"/_alias/{alias_of(tmp_path)}")) == [
        f"{alias_of(tmp_path)}-000002"
    ]
    assert len(sizes(tmp_path)) == 6


async def test_an_interrupted_rebuild_continues_where_it_stopped(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "AT_ONCE", 2)
    await make_changes(engine.ledger, 6)
    await index.ready()
    left = await index.rebuild(2)
    cluster.down = True
    with pytest.raises(ServiceAway):
        await index.rebuild(2, go_on=True)
    cluster.down = False
    heir = elastic.index_at(engine.ledger, tmp_path)
    places = []
    while left:
        places += [row["filled"] for row in await engine.ledger.database.fetch("SELECT filled FROM search_rebuilds")]
        left = await heir.rebuild(2, go_on=True)
    assert places[:2] == [2, 4], "the part that was filled is not filled again"
    assert len(sizes(tmp_path)) == 7
    assert [name for name in cluster.indexes if name.startswith(alias_of(tmp_path))] == [f"{alias_of(tmp_path)}-000002"]
    await heir.close()


async def test_two_rebuilds_at_once_are_refused_until_the_first_has_not_moved_for_a_while(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "AT_ONCE", 2)
    await make_changes(engine.ledger, 4)
    assert await index.rebuild(2) > 0
    other = elastic.index_at(engine.ledger, tmp_path)
    for go_on in (False, True):
        with pytest.raises(Conflict, match="is being rebuilt"):
            await other.rebuild(2, go_on=go_on)
    with pytest.raises(Conflict):
        await index.rebuild(2)
    assert await index.rebuild(2, go_on=True) > 0
    await engine.ledger.database.write("UPDATE search_rebuilds SET held_until = 0")
    while await other.rebuild(2, go_on=True):
        pass
    assert len(sizes(tmp_path)) == 5
    await other.close()


async def test_two_parts_at_once_in_one_process_are_refused(engine: EngineRig, index: ElasticIndex) -> None:
    await make_changes(engine.ledger, 1)
    results = await asyncio.gather(index.rebuild(10), index.rebuild(10, go_on=True), return_exceptions=True)
    assert [type(each) for each in results] == [int, Conflict]


async def test_another_definition_rebuilds_the_index_and_keeps_it_searchable(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 2)
    await index.ready()
    old = cluster.indexes[f"{alias_of(tmp_path)}-000001"]
    old.body["mappings"]["_meta"]["forager"]["definition"] = "of an earlier version"
    later = elastic.index_at(engine.ledger, tmp_path)
    await later.ready()
    assert list(cluster.indexes) == [f"{alias_of(tmp_path)}-000002"]
    assert len(sizes(tmp_path)) == 3
    await later.close()


async def test_a_rebuild_leaves_out_what_the_cluster_refuses_and_finishes(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 2)
    await engine.ledger.database.write("UPDATE rig_things SET title = 'poison' WHERE uid = 'known'")
    cluster.refused = {"poison"}
    assert await index.rebuild(1_000) == 0
    assert set(sizes(tmp_path)) == {"thing/new-0", "thing/new-1"}
