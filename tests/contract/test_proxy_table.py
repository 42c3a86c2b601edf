"""Proxies in the ledger, over both stores: kept once, sealed, counted by several processes, shown without a secret."""

from pathlib import Path
from typing import Any

import pytest

from forager.core.errors import Conflict, NotFound, SealBroken
from forager.core.proxies import ProxyEndpoint, ProxyUse
from forager.fetch.proxies.tunnel import parse_endpoint
from forager.ledger.schema.tables import SHARED
from forager.ledger.tables.proxies import SEALED, TABLE, ProxyTable
from tests.support.proxies import CANARIES, CANARY_ADDRESS, endpoint, table_on
from tests.support.rig import Rig


@pytest.fixture
def table(rig: Rig, tmp_path: Path) -> ProxyTable:
    return table_on(rig, tmp_path)


async def test_a_proxy_is_added_once_listed_and_removed__PR_9(table: ProxyTable) -> None:
    added = await table.add(parse_endpoint(CANARY_ADDRESS), source="operator")
    assert (added.protocol, added.host, added.port, added.authenticated) == ("http", "203.0.112.7", 8080, True)
    assert (added.is_active, added.healthy, added.disabled, added.success_count) == (True, True, False, 0)
    with pytest.raises(Conflict):
        await table.add(parse_endpoint(CANARY_ADDRESS), source="settings")
    assert [each.id for each in await table.list()] == [added.id]
    await table.remove(added.id)
    assert await table.list() == []
    with pytest.raises(NotFound):
        await table.remove(added.id)


async def test_the_same_host_with_another_password_is_another_proxy(table: ProxyTable) -> None:
    for address in (
        "http://a:1@p.example:80",
        "http://a:2@p.example:80",
        "http://p.example:80",
        "socks5://p.example:80",
    ):
        await table.add(parse_endpoint(address), source="operator")
    assert len(await table.list()) == 4


async def test_user_and_password_are_in_no_listing_and_no_row__S9(table: ProxyTable, rig: Rig) -> None:
    added = await table.add(parse_endpoint(CANARY_ADDRESS), source="operator")
    opened = await table.endpoint(added.id)
    assert opened.username is not None
    assert opened.password is not None
    assert (opened.username.reveal(), opened.password.reveal()) == (CANARIES[0], CANARIES[1])
    shown = f"{added!r} {await table.list()!r} {opened!r} {opened}"
    stored = repr(rig.tables.read("SELECT * FROM proxies"))
    assert not [secret for secret in CANARIES if secret in shown or secret in stored]


async def test_an_operator_s_switch_and_region_are_kept(table: ProxyTable) -> None:
    proxy = (await table.add(endpoint(), source="operator")).id
    assert (await table.set(proxy, is_active=False)).is_active is False
    changed = await table.set(proxy, region="DE")
    assert (changed.is_active, changed.region) == (False, "DE")
    assert (await table.set(proxy, region="")).region is None
    with pytest.raises(NotFound):
        await table.set(proxy + 1, is_active=True)


async def test_counts_and_the_mean_add_up_over_several_writers__SC_P21(table: ProxyTable) -> None:
    proxy = (await table.add(endpoint(), source="operator")).id
    await table.record([ProxyUse(proxy, successes=3, elapsed_ms=300, bytes=10, used_ms_ago=5, succeeded_ms_ago=5)])
    await table.record([ProxyUse(proxy, successes=1, elapsed_ms=501, bytes=7), ProxyUse(proxy, failures=2)])
    kept = await table.get(proxy)
    assert (kept.success_count, kept.failures, kept.bytes) == (4, 2, 17)
    assert kept.avg_response_time_ms == pytest.approx(801 / 4)
    assert kept.last_used_at == kept.last_success_at


async def test_more_than_ten_failures_in_a_row_disable_and_a_check_restores__PR_9(table: ProxyTable) -> None:
    proxy = (await table.add(endpoint(), source="operator")).id
    ten = ProxyUse(proxy, failures=10, failures_since_success=10, failed_ms_ago=0)
    await table.record([ten])
    kept = await table.get(proxy)
    assert (kept.healthy, kept.disabled, kept.failure_count) == (False, False, 10)
    await table.record([ProxyUse(proxy, failures=1, failures_since_success=1, failed_ms_ago=0)])
    assert (await table.get(proxy)).disabled is True
    await table.set(proxy, is_active=False)
    await table.checked(proxy, passed=True, region="US")
    kept = await table.get(proxy)
    assert (kept.healthy, kept.disabled, kept.failure_count, kept.is_active) == (True, False, 0, False)
    assert kept.region == "US"
    await table.checked(proxy, passed=True, region="FR")
    assert (await table.get(proxy)).region == "US"


async def test_a_failure_from_before_the_last_check_does_not_undo_it(table: ProxyTable) -> None:
    proxy = (await table.add(endpoint(), source="operator")).id
    await table.checked(proxy, passed=True)
    await table.record([ProxyUse(proxy, failures=1, failures_since_success=1, failed_ms_ago=60_000)])
    assert (await table.get(proxy)).healthy is True
    await table.record([ProxyUse(proxy, failures=1, failures_since_success=1, failed_ms_ago=0)])
    assert (await table.get(proxy)).healthy is False


async def test_one_of_several_processes_checks(table: ProxyTable, rig: Rig) -> None:
    proxy = (await table.add(endpoint(), source="operator")).id
    assert [await table.claim_check(proxy, every=60) for _ in range(3)] == [True, False, False]
    if rig.clock is not None:
        rig.pass_time(61)
    else:
        rig.write("UPDATE proxies SET last_check_at = last_check_at - 61000")
    assert await table.claim_check(proxy, every=60) is True


async def test_the_settings_proxies_follow_the_settings_and_leave_an_operator_s_alone(table: ProxyTable) -> None:
    await table.add(endpoint(1), source="operator")
    await table.keep_only([endpoint(1), endpoint(2), endpoint(3)], add_only=False)
    assert {each.host: each.source for each in await table.list()} == {
        "proxy1.example": "operator",
        "proxy2.example": "settings",
        "proxy3.example": "settings",
    }
    two = next(each.id for each in await table.list() if each.host == "proxy2.example")
    await table.keep_only([], add_only=True)
    assert len(await table.list()) == 3
    await table.keep_only([endpoint(2)], add_only=False)
    assert [(each.host, each.id) for each in await table.list()][1:] == [("proxy2.example", two)]
    assert len(await table.list()) == 2


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE proxies SET password = (SELECT p.password FROM proxies p WHERE p.id <> proxies.id)",
        "UPDATE proxies SET password = username",
        "UPDATE proxies SET url = 'evil.example'",
        "UPDATE proxies SET protocol = 'socks5'",
        "UPDATE proxies SET port = 81",
        "UPDATE proxies SET username = NULL",
        "UPDATE proxies SET password = 'plain'",
        "UPDATE proxies SET fingerprint = fingerprint || 'x'",
    ],
)
async def test_a_sealed_text_in_another_place_and_a_changed_address_are_refused__S9(
    damage: str, table: ProxyTable, rig: Rig
) -> None:
    mine, other = [(await table.add(endpoint(n), source="operator")).id for n in (1, 2)]
    rig.write(f"{damage} WHERE id = {mine}")
    with pytest.raises(SealBroken) as caught:
        await table.endpoint(mine)
    assert not [secret for secret in CANARIES if secret in str(caught.value)]
    assert await table.endpoint(other) == endpoint(2)
    assert len(await table.list()) == 2


def test_a_change_of_keys_seals_every_encrypted_column_of_the_schema_again__S9() -> None:
    encrypted = {
        (name, column.name)
        for part in SHARED
        for name, made in part.tables.items()
        for column in made.columns
        if column.comment and "encrypted" in column.comment
    }
    assert encrypted == {*((TABLE, name) for name in SEALED), ("job_secrets", "sealed"), ("vault", "sealed")}


async def test_an_endpoint_without_secrets_is_kept_as_it_is(table: ProxyTable) -> None:
    plain: dict[str, Any] = {"protocol": "socks5", "host": "2001:db8::1", "port": 1080, "region": "GB"}
    added = await table.add(ProxyEndpoint(**plain), source="operator")
    assert added.authenticated is False
    assert await table.endpoint(added.id) == ProxyEndpoint(**plain)
