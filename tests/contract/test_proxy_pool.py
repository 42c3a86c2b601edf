"""The pool over both stores: what the settings name, what other processes find, what a lost store must not cost."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from forager.core.database import Database, Row
from forager.core.errors import ProxyFailed, Rejected, StoreUnavailable
from forager.fetch.proxies.pool import given_proxies
from forager.ledger.tables.proxies import ProxyTable
from forager.secrets.sealing import sealer_for
from tests.support.clock import FakeClock
from tests.support.proxies import CANARY_ADDRESS, DecidedCheck, endpoint, pool_on, table_on
from tests.support.rig import Rig


def never(_: int) -> float:
    return 0.0


@pytest.fixture
def table(rig: Rig, tmp_path: Path) -> ProxyTable:
    return table_on(rig, tmp_path)


async def test_no_proxies_is_a_valid_set_up__SC_9(table: ProxyTable) -> None:
    pool = await pool_on(table, FakeClock())
    assert pool.choose(never) == (None, 0.0)
    assert (len(pool), pool.usable) == (0, 0)


async def test_results_of_one_process_reach_the_others_at_their_next_refresh(table: ProxyTable) -> None:
    clock, check = FakeClock(), DecidedCheck()
    one, other = await pool_on(table, clock, check), await pool_on(table, clock, check)
    proxy = (await one.add(CANARY_ADDRESS)).id
    await other.refresh()
    one.failed(proxy)
    await one.refresh()
    await other.refresh()
    assert (one.usable, other.usable) == (0, 0)
    clock.advance(1)
    assert (await other.check(proxy)).passed
    await one.refresh()
    assert (one.usable, other.usable) == (1, 1)
    await one.remove(proxy)
    await other.refresh()
    with pytest.raises(ProxyFailed):
        other.endpoint(proxy)


async def test_more_than_ten_failures_disable_and_a_check_restores_but_never_the_operator_s_switch__PR_9(
    table: ProxyTable,
) -> None:
    check = DecidedCheck()
    pool = await pool_on(table, FakeClock(), check)
    proxy = (await pool.add(CANARY_ADDRESS)).id
    for n in range(1, 12):
        pool.failed(proxy)
        assert (await pool.get(proxy)).disabled is (n > 10)
    assert (await pool.check(proxy)).passed
    assert (await pool.get(proxy)).disabled is False
    assert pool.usable == 1
    await pool.set(proxy, is_active=False)
    assert (await pool.check(proxy)).passed
    assert pool.usable == 0
    assert (await pool.get(proxy)).is_active is False


async def test_failed_checks_count_in_a_row_and_not_among_the_requests(table: ProxyTable) -> None:
    pool = await pool_on(table, FakeClock(), DecidedCheck(well=lambda _: False))
    proxy = (await pool.add(CANARY_ADDRESS)).id
    for _ in range(11):
        await pool.check(proxy)
    kept = await pool.get(proxy)
    assert (kept.failures, kept.failure_count, kept.disabled, kept.healthy) == (0, 11, True, False)


async def test_every_active_proxy_is_checked_once_an_interval_by_one_of_the_processes__SC_9(
    table: ProxyTable, rig: Rig
) -> None:
    clock, check = FakeClock(), DecidedCheck(region="NL")
    pools = [await pool_on(table, clock, check) for _ in range(2)]
    on, off = [(await pools[0].add(f"http://p{n}.example:80")).id for n in range(2)]
    await pools[0].set(off, is_active=False)
    await pools[1].refresh()
    for _ in range(3):
        for pool in pools:
            await pool.check_due()
    assert check.asked == [on]
    assert pools[0].endpoint(on).region == "NL"
    clock.advance(61)
    if rig.clock is not None:
        rig.pass_time(61)
    else:
        rig.write("UPDATE proxies SET last_check_at = last_check_at - 61000")
    for pool in pools:
        await pool.check_due()
    assert check.asked == [on, on]


async def test_the_loop_writes_reads_back_and_checks_until_it_is_stopped__SC_9(table: ProxyTable) -> None:
    checked = asyncio.Event()

    class Telling(DecidedCheck):
        async def __call__(self, proxy: int, endpoint: Any) -> Any:
            checked.set()
            return await super().__call__(proxy, endpoint)

    await table.keep_only([endpoint(8), endpoint(9)], add_only=True)
    pool = await pool_on(table, FakeClock(), Telling(), given=[endpoint(9)])
    assert len(pool) == 2, "a passing command removes nothing"
    running = asyncio.create_task(pool.run())
    async with asyncio.timeout(60):
        await checked.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [row.host for row in await table.list()] == ["proxy9.example"]


async def test_a_store_that_is_away_for_a_while_costs_no_count__SC_P21(rig: Rig, tmp_path: Path) -> None:
    ledger: Any = rig.ledger
    database = Flaky(ledger.database)
    table = ProxyTable(database, ledger.now_ms, sealer_for(tmp_path))
    pool = await pool_on(table, FakeClock())
    proxy = (await pool.add(CANARY_ADDRESS)).id
    pool.choose(never)
    pool.succeeded(proxy, elapsed_ms=100, size=10)
    database.away = True
    for _ in range(3):
        await pool.flush()
        pool.succeeded(proxy, elapsed_ms=200, size=10)
    pool.failed(proxy)
    database.away = False
    kept = await pool.get(proxy)
    assert (kept.success_count, kept.failures, kept.failure_count, kept.bytes) == (4, 1, 1, 40)
    assert kept.avg_response_time_ms == pytest.approx(175)
    assert kept.last_used_at is not None


async def test_a_caller_that_gives_up_while_counts_are_written_does_not_double_them__SC_P21(
    rig: Rig, tmp_path: Path
) -> None:
    ledger: Any = rig.ledger
    database = Flaky(ledger.database)
    pool = await pool_on(ProxyTable(database, ledger.now_ms, sealer_for(tmp_path)), FakeClock())
    proxy = (await pool.add(CANARY_ADDRESS)).id
    pool.choose(never)
    pool.succeeded(proxy, elapsed_ms=100, size=10)
    database.answers.clear()
    for give_up in (pool.flush, pool.refresh):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(give_up(), 0.05)
    database.answers.set()
    await pool.close()
    kept = await pool.get(proxy)
    assert (kept.success_count, kept.bytes) == (1, 10)


async def test_a_proxy_whose_key_is_lost_is_left_out_and_the_others_continue__S9(table: ProxyTable, rig: Rig) -> None:
    for n in (1, 2):
        await table.add(endpoint(n), source="operator")
    rig.write("UPDATE proxies SET password = username WHERE url = 'proxy1.example'")
    pool = await pool_on(table, FakeClock())
    broken, well = [row.id for row in await pool.list()]
    assert [pool.choose(never)[0] for _ in range(3)] == [well] * 3
    found = await pool.check(broken)
    assert not found.passed
    assert "add it again" in (found.reason or "")


async def test_a_change_of_keys_beside_a_running_pool_is_not_felt(table: ProxyTable, tmp_path: Path, rig: Rig) -> None:
    from forager.secrets.sealing import rotate_keys

    pool = await pool_on(table, FakeClock())
    proxy = (await pool.add(CANARY_ADDRESS)).id
    before = pool.endpoint(proxy)
    pool.succeeded(proxy, elapsed_ms=1, size=1)
    sealer = sealer_for(tmp_path)
    ledger: Any = rig.ledger
    await rotate_keys(sealer, [ProxyTable(ledger.database, ledger.now_ms, sealer)])
    await pool.refresh()
    assert pool.endpoint(proxy) == before
    assert (await pool.get(proxy)).success_count == 1


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:80", "http://[::1]:80", "socks5://10.1.2.3:1080", "http://1.1:80"]
)
async def test_a_private_address_is_refused_when_it_is_added_unless_it_is_listed__S1(
    address: str, table: ProxyTable
) -> None:
    pool = await pool_on(table, FakeClock())
    with pytest.raises(Rejected) as caught:
        await pool.add(address)
    assert [each.field for each in caught.value.fields] == ["address"]
    assert await pool.list() == []
    allowed = await pool_on(table, FakeClock(), allow=("127.0.0.0/8",))
    assert (await allowed.add("http://127.0.0.1:3128")).host == "127.0.0.1"


def test_settings_and_file_together_name_proxies_and_their_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "proxies.txt"
    file.write_text("# ours\nsocks5://u:p@b.example:1080?region=fr\n")
    found = given_proxies(["http://a.example:1"], file)
    assert [(each.host, each.region) for each in found] == [("a.example", None), ("b.example", "FR")]
    file.write_text("http://a.example:1\nhttp://u:canary@b.example\n")
    with pytest.raises(Rejected, match="line 2") as caught:
        given_proxies([], file)
    assert "canary" not in f"{caught.value}{caught.value.fields}"
    with pytest.raises(Rejected, match="FORAGER_PROXY_FILE"):
        given_proxies([], tmp_path / "nowhere")
    with pytest.raises(Rejected) as caught:
        given_proxies(["http://a.example:1", "canary"], None)
    assert [each.field for each in caught.value.fields] == ["SCRAPER_PROXY_ENDPOINTS[2]"]


class Flaky:
    """A real database that can be away, or carry out a write and answer late."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.dialect = inner.dialect
        self.away = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def fetch(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self._inner.fetch(sql, values)

    async def fetch_tuples(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return await self._inner.fetch_tuples(sql, values)

    async def fetch_by_keys(self, sql: str, keys: Mapping[str, Sequence[str]]) -> Sequence[Row]:
        return await self._inner.fetch_by_keys(sql, keys)

    async def fetch_by_words(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def fetch_fresh(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        return await self.fetch(sql, values)

    async def write(self, sql: str, values: Mapping[str, Any] | None = None) -> Sequence[Row]:
        if self.away:
            raise StoreUnavailable("away")
        done = await self._inner.write(sql, values)
        await self.answers.wait()
        return done
