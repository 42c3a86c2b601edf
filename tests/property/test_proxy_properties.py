"""The choice of the next proxy: properties 18 to 21 over the pool and its table, with a clock that stands still."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forager.core.errors import NoHealthyProxies
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Lane
from forager.core.proxies import ProxyUse
from forager.engine.lanes.lane import LaneRun
from forager.fetch.proxies.pool import ProxyPool
from forager.ledger.tables.proxies import ProxyTable
from forager.secrets.sealing import sealer_for
from tests.support.postgres import Postgres
from tests.support.proxies import DecidedCheck, endpoint, pool_on, table_on
from tests.support.rig import HandClock, create_store, postgres_rig, sqlite_rig
from tests.support.rig_pipelines import catalog

CASES = settings(max_examples=100, deadline=None)
HEALTH = st.lists(st.booleans(), min_size=1, max_size=8)


@cache
def _empty_store() -> bytes:
    """Made once: an example needs a copy."""
    with TemporaryDirectory() as folder:
        create_store(Path(folder) / "ledger.db")
        return (Path(folder) / "ledger.db").read_bytes()


@contextlib.asynccontextmanager
async def a_table(clock: HandClock) -> AsyncIterator[ProxyTable]:
    """On the clock of the pool: what is before a check must be before it for both."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        path.write_bytes(_empty_store())
        rig = await sqlite_rig(path, clock)
        try:
            yield table_on(rig, Path(folder))
        finally:
            await rig.ledger.close()
            rig.tables.close()


@contextlib.asynccontextmanager
async def a_pool(
    count: int, check: DecidedCheck | None = None
) -> AsyncIterator[tuple[ProxyPool, HandClock, list[int]]]:
    clock = HandClock()
    async with a_table(clock) as table:
        for n in range(count):
            await table.add(endpoint(n, secret=False), source="operator")
        pool = await pool_on(table, clock, check)
        yield pool, clock, [row.id for row in await table.list()]


def run(example: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(example())  # type: ignore[arg-type]


def never(_: int) -> float:
    return 0.0


# Feature: scraping-microservices, Property 18: Proxy round-robin skips unhealthy
@CASES
@given(
    healthy=HEALTH,
    rounds=st.integers(1, 4),
    off=st.sets(st.integers(0, 7)),
    looks=st.sets(st.integers(0, 31), max_size=4),
)
def test_round_robin_goes_over_the_healthy_alone__SC_P18(
    healthy: list[bool], rounds: int, off: set[int], looks: set[int]
) -> None:
    async def example() -> None:
        async with a_pool(len(healthy)) as (pool, _, ids):
            for proxy, well in zip(ids, healthy, strict=True):
                if not well:
                    pool.failed(proxy)
                elif ids.index(proxy) in off:
                    await pool.set(proxy, is_active=False)
            usable = [p for n, (p, well) in enumerate(zip(ids, healthy, strict=True)) if well and n not in off]
            assert pool.usable == len(usable)
            if not usable:
                with pytest.raises(NoHealthyProxies):
                    pool.choose(never)
                return
            chosen = []
            for turn in range(rounds * len(usable)):
                if turn in looks:
                    await pool.refresh()  # what others did is seen in between, and changes nobody's turn
                chosen.append(pool.choose(never)[0])
            assert chosen == usable * rounds

    run(example)


# Feature: scraping-microservices, Property 19: Failed proxy marked unhealthy
@CASES
@given(
    count=st.integers(1, 6),
    acts=st.lists(
        st.tuples(st.sampled_from(["fail", "succeed", "choose", "flush", "check"]), st.integers(0, 5)), max_size=30
    ),
    well=st.sets(st.integers(0, 5)),
)
def test_a_failed_proxy_is_left_out_until_a_check_restores_it__SC_P19(
    count: int, acts: list[tuple[str, int]], well: set[int]
) -> None:
    async def example() -> None:
        check = DecidedCheck()
        async with a_pool(count, check) as (pool, clock, ids):
            check.well = lambda proxy: ids.index(proxy) in well
            out: set[int] = set()
            for act, n in acts:
                proxy = ids[n % count]
                clock.pass_(1)
                match act:
                    case "fail":
                        pool.failed(proxy)
                        out.add(proxy)
                    case "succeed":
                        pool.succeeded(proxy, elapsed_ms=1, size=1)
                    case "flush":
                        await pool.refresh()
                    case "check":
                        if (await pool.check(proxy)).passed:
                            out.discard(proxy)
                        else:
                            out.add(proxy)
                    case "choose":
                        if len(out) == count:
                            with pytest.raises(NoHealthyProxies):
                                pool.choose(never)
                        else:
                            assert pool.choose(never)[0] not in out
                assert pool.usable == count - len(out)

    run(example)


# Feature: scraping-microservices, Property 20: Proxy per-domain cooldown
@CASES
@given(
    count=st.integers(1, 4),
    rest=st.sampled_from([30.0, 7.5]),
    visits=st.lists(st.tuples(st.sampled_from(["a.example", "b.example"]), st.floats(0, 20)), max_size=40),
)
def test_a_proxy_rests_between_two_visits_to_a_domain__SC_P20(
    count: int, rest: float, visits: list[tuple[str, float]]
) -> None:
    async def example() -> None:
        async with a_pool(count) as (pool, clock, ids):
            lanes = {name: resting_lane(name, rest, clock) for name in ("a.example", "b.example")}
            last: dict[tuple[str, int], float] = {}
            for domain, passed in visits:
                clock.pass_(passed)
                now, lane = clock.monotonic(), lanes[domain]
                left = [last.get((domain, proxy), now - rest) + rest - now for proxy in ids]
                chosen, wait = pool.choose(lane.proxy_rests)
                if chosen is None:
                    assert min(left) > 0, "one that has rested enough is taken"
                    assert wait == pytest.approx(min(left))
                else:
                    assert now - last.get((domain, chosen), now - rest) >= rest - 1e-6
                    lane.proxy_left(chosen)
                    last[(domain, chosen)] = now

    run(example)


def resting_lane(name: str, rest: float, clock: HandClock) -> LaneRun:
    return LaneRun(OwnedLane(id=1, name=name, state={}, epoch=1), Lane(name, site=True, proxy_rest=rest), clock)


ACTS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 2),
        st.sampled_from(["ok", "bad", "flush", "use", "away"]),
        st.integers(0, 900),
    ),
    max_size=30,
)


class Unsteady:
    """A table that at times takes nothing down, as when its database is away."""

    def __init__(self, table: ProxyTable) -> None:
        self._table = table
        self.away = False

    async def record(self, uses: Sequence[ProxyUse]) -> Sequence[ProxyUse]:
        return uses if self.away else await self._table.record(uses)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


async def counted_exactly(table: ProxyTable, clock: HandClock, acts: list[tuple[int, int, str, int]]) -> None:
    """Two processes share three proxies; the table has the sum of what both did."""
    for n in range(3):
        await table.add(endpoint(n, secret=False), source="operator")
    store: Any = Unsteady(table)
    pools = [await pool_on(store, clock), await pool_on(store, clock)]
    ids = [row.id for row in await table.list()]
    good: dict[int, list[int]] = {proxy: [] for proxy in ids}
    bad = dict.fromkeys(ids, 0)
    for who, n, act, elapsed in acts:
        pool, proxy = pools[who], ids[n]
        clock.pass_(0.5)
        if act == "ok":
            pool.succeeded(proxy, elapsed_ms=elapsed, size=elapsed * 2)
            good[proxy].append(elapsed)
        elif act == "bad":
            pool.failed(proxy)
            bad[proxy] += 1
        elif act == "flush":
            await pool.refresh()
        elif act == "away":
            store.away = True
            await pool.flush()
            store.away = False
        else:
            with contextlib.suppress(NoHealthyProxies):
                pool.choose(never)
    await asyncio.gather(*(pool.close() for pool in pools))
    for row in await table.list():
        took = good[row.id]
        assert (row.success_count, row.failures, row.bytes) == (len(took), bad[row.id], 2 * sum(took))
        mean = sum(took) / len(took) if took else None
        assert row.avg_response_time_ms == (pytest.approx(mean) if took else None)
        assert row.healthy is (bad[row.id] == 0)


# Feature: scraping-microservices, Property 21: Proxy metrics accuracy
@CASES
@given(acts=ACTS)
def test_counts_are_those_of_what_happened_with_two_processes__SC_P21(acts: list[tuple[int, int, str, int]]) -> None:
    async def example() -> None:
        clock = HandClock()
        async with a_table(clock) as table:
            await counted_exactly(table, clock, acts)

    run(example)


# Feature: scraping-microservices, Property 21: Proxy metrics accuracy
def test_counts_are_those_of_what_happened_on_postgresql_too__SC_P21(postgres: Postgres, tmp_path: Path) -> None:
    from forager.ledger.schema.migrate import create_postgres

    url = postgres.create_database()
    create_postgres(url, catalog())

    @settings(CASES, max_examples=25)  # what is drawn is the same; the arithmetic is that of another database
    @given(acts=ACTS)
    def many(acts: list[tuple[int, int, str, int]]) -> None:
        async def example() -> None:
            rig = await postgres_rig(url, create=False)
            try:
                rig.write("DELETE FROM proxies")
                ledger: Any = rig.ledger
                table = ProxyTable(ledger.database, ledger.now_ms, sealer_for(tmp_path))
                await counted_exactly(table, HandClock(), acts)
            finally:
                await rig.ledger.close()
                rig.tables.close()

        run(example)

    try:
        many()
    finally:
        postgres.drop_database(url)
