"""The Elasticsearch sink on the stand-in: versions, what a cluster answers with, settings and searches.

Rebuilds are in `test_search_rebuild`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from forager.app.compose import open_app
from forager.app.config import new_settings
from forager.core.change import Change
from forager.core.errors import Conflict, Permanent, Rejected, Transient
from forager.pipelines.products.wiring import indexed
from forager.sinks.elasticsearch import documents, rebuild
from forager.sinks.elasticsearch.client import Client, SearchCluster, basic, properties_of
from forager.sinks.elasticsearch.search import ElasticIndex
from forager.sinks.elasticsearch.settings import ElasticsearchSettings
from tests.support import elastic
from tests.support.elastic_standin import StandIn
from tests.support.engine import EngineRig
from tests.support.shop import open_shop
from tests.support.sink_suite import log_of, make_changes, open_store

pytestmark = pytest.mark.one_store  # what a cluster answers decides


@pytest.fixture(params=["sqlite", "postgres"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EngineRig]:
    where = str(tmp_path) if request.param == "sqlite" else request.getfixturevalue("unmade_postgres_url")
    opened = await open_store(where)
    yield opened
    await opened.close()


@pytest.fixture
async def index(engine: EngineRig, tmp_path: Path) -> AsyncIterator[ElasticIndex]:
    opened = elastic.index_at(engine.ledger, tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def cluster(tmp_path: Path) -> StandIn:
    """A stand-in of the test's own, which it may break."""
    own = StandIn()
    (tmp_path / elastic.CLUSTER).write_text(own.url)
    return own


async def things(engine: EngineRig) -> list[Change]:
    return [change for change in await log_of(engine.ledger) if change.kind == "thing"]


def alias_of(folder: Path) -> str:
    return f"{elastic.prefix_of(folder)}things"


def sizes(folder: Path) -> dict[str, int]:
    return dict(elastic.versions(folder))


def test_products_have_the_fields_and_types_of_the_seed__PR_19() -> None:
    assert indexed.alias == "products"
    kinds = {name: (form["type"], form.get("analyzer")) for name, form in properties_of(indexed).items()}
    assert kinds.pop("gone_at") == ("date", None)
    assert {name: " ".join(filter(None, kind)) for name, kind in kinds.items()} == {
        "product_id": "integer",
        "product_name": "text standard",
        "description": "text standard",
        "brand": "keyword",
        "category": "keyword",
        "domain_name": "keyword",
        "created_at": "date",
    }


# ── writes ──


@pytest.mark.one_store(False)
async def test_old_never_goes_over_new_whatever_comes_late__R17(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path
) -> None:
    await index.ready()
    await make_changes(engine.ledger, 3)
    changes = await things(engine)
    await index.put(changes)
    before = elastic.versions(tmp_path)
    await index.put(changes[:2])
    assert elastic.versions(tmp_path) == before
    assert dict(before)["thing/known"] == max(change.id for change in changes if change.key == "known")


@pytest.mark.one_store(False)
async def test_a_record_that_is_gone_from_the_store_is_removed_from_the_index(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path
) -> None:
    await index.ready()
    await make_changes(engine.ledger, 1)
    await index.put(await things(engine))
    await engine.ledger.database.write("DELETE FROM rig_things WHERE uid = 'known'")
    await make_changes(engine.ledger, 1)
    await engine.ledger.database.write("DELETE FROM rig_things WHERE uid = 'known'")
    await index.put(await things(engine))
    assert "thing/known" not in sizes(tmp_path)


async def test_a_document_that_the_cluster_refuses_is_named_and_the_others_are_written(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path
) -> None:
    await index.ready()
    await make_changes(engine.ledger, 1)
    await engine.ledger.database.write("UPDATE rig_things SET title = 'poison' WHERE uid = 'known'")
    cluster.refused = {"poison"}
    with pytest.raises(Permanent, match="known: mapper_parsing_exception"):
        await index.put(await things(engine))
    assert list(sizes(tmp_path)) == ["thing/new-0"]


@pytest.mark.parametrize("fault", ["down", "lost"])
async def test_a_cluster_that_fails_gets_everything_later(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path, fault: str
) -> None:
    await index.ready()
    await make_changes(engine.ledger, 1)
    changes = await things(engine)
    if fault == "down":
        cluster.down = True
    else:
        cluster.lost = 1
    with pytest.raises(Transient):
        await index.put(changes)
    cluster.down = False
    await index.put(changes)
    assert sizes(tmp_path) == dict(elastic.wanted(changes))


async def test_a_removed_alias_is_never_replaced_by_an_index_that_the_cluster_creates(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex, tmp_path: Path
) -> None:
    await index.ready()
    await make_changes(engine.ledger, 1)
    cluster.indexes.clear()
    cluster.aliases.clear()
    await engine.ledger.database.write("DELETE FROM rig_things WHERE uid = 'known'")
    with pytest.raises(Transient):
        await index.put(await things(engine))
    assert cluster.indexes == {}
    await index.put(await things(engine))  # builds it from the records
    assert set(sizes(tmp_path)) == {"thing/new-0"}


async def test_a_name_that_is_not_ours_is_left_alone_and_the_remedy_named(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path
) -> None:
    url = elastic.url_of(tmp_path)
    elastic.ask(url, "PUT", f"/{alias_of(tmp_path)}", {"mappings": {"properties": {}}})
    for call in (index.ready(), index.rebuild(100)):
        with pytest.raises(Conflict, match="FORAGER_ELASTICSEARCH_PREFIX"):
            await call
    assert list(elastic.ask(url, "GET", f"/{alias_of(tmp_path)}*/_mapping")) == [alias_of(tmp_path)]
    elastic.ask(url, "DELETE", f"/{alias_of(tmp_path)}")


async def test_an_index_with_a_number_that_is_not_ours_is_neither_removed_nor_used(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path
) -> None:
    url, foreign = elastic.url_of(tmp_path), f"{alias_of(tmp_path)}-000001"
    elastic.ask(url, "PUT", f"/{foreign}", {"mappings": {"properties": {"theirs": {"type": "keyword"}}}})
    await index.ready()
    assert await index.rebuild(1_000) == 0
    assert "theirs" in elastic.ask(url, "GET", f"/{foreign}/_mapping")[foreign]["mappings"]["properties"]
    assert list(elastic.ask(url, "GET", f"/_alias/{alias_of(tmp_path)}")) == [f"{alias_of(tmp_path)}-000003"]
    with pytest.raises(Conflict, match=r"is not Forager's"):
        await index._alias.create(foreign, 0, "")
    elastic.ask(url, "DELETE", f"/{foreign}")


async def test_a_cluster_that_refuses_the_index_itself_sets_no_change_aside(
    engine: EngineRig, cluster: StandIn, index: ElasticIndex
) -> None:
    cluster.refuses_indexes = True
    await make_changes(engine.ledger, 1)
    with pytest.raises(Transient, match="maximum shards open"):
        await index.put(await things(engine))


@pytest.mark.one_store(False)
async def test_an_index_of_another_ledger_is_recognised_and_a_rebuild_heals_it(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path
) -> None:
    await make_changes(engine.ledger, 2)
    await index.ready()
    await engine.ledger.database.write("UPDATE changes SET at = at - 1")
    another = elastic.index_at(engine.ledger, tmp_path)
    with pytest.raises(Conflict, match="forager search rebuild"):
        await another.ready()
    assert await another.rebuild(1_000) == 0
    assert await another.ready() > 0
    await another.close()


async def test_keys_and_texts_never_leave_their_place_in_a_request__S18__S19(
    index: ElasticIndex, tmp_path: Path
) -> None:
    await index.ready()
    nasty = ['"}}\n{"delete":{"_id":"known"}}\n', "../_all", "*", "_bulk?x=", "k" * 2_000, "=1+1", "\u2028\x85"]
    rows = [documents.IndexDocument(key, 7, {"uid": key, "title": key, "thing_id": n}) for n, key in enumerate(nasty)]
    url = elastic.url_of(tmp_path)
    client = Client(SearchCluster(url))
    written = await documents.write(client, alias_of(tmp_path), rows, is_alias=True)
    await client.close()
    assert written.refused == {}
    elastic.ask(url, "POST", f"/{alias_of(tmp_path)}/_refresh")
    everything = {"query": {"match_all": {}}, "size": 100, "sort": [{"thing_id": "desc"}]}
    hits = elastic.ask(url, "POST", f"/{alias_of(tmp_path)}/_search", everything)["hits"]["hits"]
    assert {hit["_source"]["title"] for hit in hits} == set(nasty)
    assert {hit["_id"] for hit in hits} == {documents.id_of(key) for key in nasty}


@pytest.mark.one_store(False)
async def test_archived_records_are_forgotten_also_in_an_index_that_is_being_built(
    engine: EngineRig, index: ElasticIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuild, "AT_ONCE", 2)
    await index.forget({1: "new-0"})  # there is no index yet
    await make_changes(engine.ledger, 4)
    await index.ready()
    assert await index.rebuild(4), "the first four records are in both indexes"
    await engine.ledger.database.write("DELETE FROM rig_things WHERE uid IN ('new-0', 'new-1')")
    await index.forget({1: "new-0", 2: "new-1", 3: "known", 99: "never"})
    left = {"thing/known", "thing/new-2", "thing/new-3"}
    assert set(sizes(tmp_path)) == left, "a record that is stored stays"
    await index.put(await things(engine))
    assert set(sizes(tmp_path)) == left, "a replay brings none back"
    while await index.rebuild(4, go_on=True):
        pass
    assert set(sizes(tmp_path)) == left
    await index.forget({1: "new-0"})
    seen = len(await things(engine))
    await make_changes(engine.ledger, 1)
    await index.put((await things(engine))[seen:])
    assert set(sizes(tmp_path)) == left | {"thing/new-0"}, "it came back"


# ── settings and searches ──


@pytest.mark.parametrize(
    "given",
    [
        {"elasticsearch_username": "me"},
        {"elasticsearch_password": "canary-7431"},
        {"elasticsearch_username": "me", "elasticsearch_password": "p", "elasticsearch_api_key": "canary-7431"},
    ],
)
async def test_signing_in_needs_a_user_and_a_password_or_a_key(tmp_path: Path, given: dict[str, str]) -> None:
    settings = new_settings(home=tmp_path, elasticsearch_url="http://127.0.0.1:9", **given)
    with pytest.raises(Rejected, match="elasticsearch_") as refused:
        async with open_app(settings):
            pass
    assert "canary-7431" not in str(refused.value)


@pytest.mark.parametrize("prefix", ["Shop-", "a/b", "a,b", "*", "-shop", "x" * 65])
def test_a_prefix_that_would_name_other_indexes_is_refused(prefix: str) -> None:
    with pytest.raises(ValidationError, match="elasticsearch_prefix"):
        new_settings(elasticsearch_prefix=prefix)
    longest = new_settings(elasticsearch_prefix="x" * 64).of(ElasticsearchSettings)
    assert longest.elasticsearch_prefix == "x" * 64


async def test_a_password_is_sent_and_never_shown__S8(cluster: StandIn) -> None:
    client = Client(SearchCluster(cluster.url, authorization=basic("me", "canary-7431")))
    assert "canary-7431" not in repr(vars(client))
    cluster.down = True
    with pytest.raises(Transient) as error:
        await client.ask("GET", "/x/_mapping")
    assert "canary-7431" not in str(error.value)
    await client.close()


async def test_a_search_reports_that_the_index_is_unavailable_and_works_when_it_is_back(
    cluster: StandIn, tmp_path: Path
) -> None:
    async with open_shop(tmp_path / "home", settings={"elasticsearch_url": cluster.url}, pages=2) as shop:
        assert "search" not in shop.app.deliveries, "the store keeps no index of its own"
        await shop.crawl(urls=[shop.site.product_url(1)])
        cluster.down = True
        for method, path in (("GET", "/products/search?q=collection"), ("POST", "/products/search/rebuild")):
            refused = await shop.client.request(method, f"/api/v1{path}")
            assert (refused.status_code, refused.json()["meta"]["code"]) == (503, "service_unavailable")
            assert cluster.url in refused.json()["error"]
            assert refused.headers["Retry-After"]
        cluster.down = False
        found = await shop.get("/products/search", q="collection")  # builds the index, since there is none yet
        assert (found["total"], found["unindexed"]) == (1, 0)


async def test_a_search_while_another_process_builds_the_index_finds_nothing_and_reports_that(
    cluster: StandIn, tmp_path: Path
) -> None:
    async with open_shop(tmp_path / "home", settings={"elasticsearch_url": cluster.url}, pages=2) as shop:
        await shop.crawl(urls=[shop.site.product_url(1)])
        await shop.get("/products/search", q="collection")
        cluster.aliases.clear()
        cluster.indexes.clear()
        await shop.app.database.write(
            "INSERT INTO search_rebuilds (alias, target, filled, followed, holder, held_until)"
            " VALUES ('products', 'products-000009', 0, 0, 'another', 9999999999999)"
        )
        found = await shop.get("/products/search", q="collection")
        assert (found["hits"], found["unindexed"]) == ([], 1)
        again = await shop.client.post("/api/v1/products/search/rebuild")
        assert again.status_code == 409
