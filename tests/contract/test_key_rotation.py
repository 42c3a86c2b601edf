"""A change of keys on both stores: everything opens after it, a stolen database reveals nothing, a crash costs
nothing."""

import secrets
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from forager.core.clock import Faults
from forager.core.errors import SealBroken
from forager.ledger.tables.proxies import ProxyTable
from forager.secrets.sealing import FILE, Sealer, rotate_keys, sealer_for
from tests.support.proxies import CANARIES, endpoint
from tests.support.rig import Rig

PROXIES = 5


class Killed(BaseException):
    """As a kill would: nothing catches it."""


class KillAt:
    """Stops the program at the n-th of a kind of moment."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.fired = 0

    def at(self, point: str) -> None:
        if point == self.point:
            self.fired += 1
            raise Killed(point)


def on(rig: Rig, sealer: Sealer) -> ProxyTable:
    ledger: Any = rig.ledger
    return ProxyTable(ledger.database, ledger.now_ms, sealer)


async def filled(rig: Rig, sealer: Sealer) -> ProxyTable:
    table = on(rig, sealer)
    for n in range(PROXIES):
        await table.add(endpoint(n, secret=n != 0), source="operator")
    return table


async def everything_opens(table: ProxyTable) -> bool:
    return [await table.endpoint(row.id) for row in await table.list()] == [
        endpoint(n, secret=n != 0) for n in range(PROXIES)
    ]


async def test_everything_opens_after_a_rotation_and_the_old_key_is_gone__S9(rig: Rig, tmp_path: Path) -> None:
    table = await filled(rig, sealer_for(tmp_path))
    before = (tmp_path / FILE).read_text()
    stolen = rig.tables.read("SELECT * FROM proxies ORDER BY id")
    done = await rotate_keys(sealer_for(tmp_path), [on(rig, sealer_for(tmp_path))])
    assert (done.resealed, done.dropped) == (PROXIES, 1)
    assert before.strip() not in (tmp_path / FILE).read_text()
    assert await everything_opens(on(rig, sealer_for(tmp_path)))
    assert await everything_opens(table), "a process that began before sees the new key"
    after = rig.tables.read("SELECT * FROM proxies ORDER BY id")
    for old, new in zip(stolen, after, strict=True):
        assert old["fingerprint"] != new["fingerprint"]
        assert old["password"] is None or old["password"] != new["password"]


async def test_a_stolen_database_without_the_key_reveals_nothing__S9(rig: Rig, tmp_path: Path) -> None:
    await filled(rig, sealer_for(tmp_path))
    names = rig.tables.read(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if rig.clock is not None
        else "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public'"
    )
    dump = repr([rig.tables.read(f'SELECT * FROM "{row["name"]}"') for row in names])
    assert "proxy1.example" in dump, "the dump is of the right database"
    assert not [secret for secret in CANARIES if secret in dump]
    thief = on(rig, sealer_for(tmp_path / "thief", [SecretStr(secrets.token_urlsafe(32))]))
    for row in await thief.list():
        with pytest.raises(SealBroken):
            await thief.endpoint(row.id)


@pytest.mark.parametrize("point", ["rotate:new-key", "row", "rotate:resealed", "rotate:before-drop", "file"])
async def test_a_crash_in_a_rotation_loses_nothing_and_it_can_continue__S9(
    point: str, rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(rig, sealer_for(tmp_path))
    faults = KillAt(point)
    sealer = sealer_for(tmp_path)
    with pytest.raises(Killed), monkeypatch.context() as patched:
        await rotate_keys(sealer, [HalfDone(on(rig, sealer), faults)], _file_dies(faults, sealer, patched))
    assert faults.fired == 1
    assert await everything_opens(on(rig, sealer_for(tmp_path)))
    again = sealer_for(tmp_path)
    await rotate_keys(again, [on(rig, again)])
    assert len((tmp_path / FILE).read_text().split()) == 1
    assert await everything_opens(on(rig, sealer_for(tmp_path)))


async def test_an_old_key_stays_while_a_row_needs_it__S9(rig: Rig, tmp_path: Path) -> None:
    """The negative control: a table that forgets a row must not cost the row."""
    await filled(rig, sealer_for(tmp_path))
    sealer = sealer_for(tmp_path)
    with pytest.raises(SealBroken, match="still sealed with an old key"):
        await rotate_keys(sealer, [Forgetful(on(rig, sealer))])
    assert await everything_opens(on(rig, sealer_for(tmp_path)))


async def test_keys_of_the_settings_are_changed_by_putting_a_new_one_first__S9(rig: Rig, tmp_path: Path) -> None:
    old, new = SecretStr(secrets.token_urlsafe(32)), SecretStr(secrets.token_urlsafe(32))
    await filled(rig, sealer_for(tmp_path, [old]))
    both = sealer_for(tmp_path, [new, old])
    done = await rotate_keys(both, [on(rig, both)])
    assert (done.resealed, done.dropped) == (PROXIES, 0)
    assert await everything_opens(on(rig, sealer_for(tmp_path, [new])))


async def test_a_proxy_is_not_added_twice_in_the_middle_of_a_rotation(rig: Rig, tmp_path: Path) -> None:
    table = await filled(rig, sealer_for(tmp_path))
    sealer_for(tmp_path).rotate()
    await table.keep_only([endpoint(1), endpoint(9)], add_only=True)
    assert len(await table.list()) == PROXIES + 1


class HalfDone:
    """The real table, with a fail point after its first rows."""

    def __init__(self, table: ProxyTable, faults: Faults) -> None:
        self.table, self.faults = table, faults

    async def stale(self) -> int:
        return await self.table.stale()

    async def reseal(self) -> int:
        seal_anew, count = self.table._seal_anew, 0

        async def counted(*given: Any) -> None:
            nonlocal count
            await seal_anew(*given)
            count += 1
            if count == 2:
                self.faults.at("row")

        self.table._seal_anew = counted  # type: ignore[method-assign, assignment]
        return await self.table.reseal()


class Forgetful:
    def __init__(self, table: ProxyTable) -> None:
        self.stale = table.stale

    async def reseal(self) -> int:
        return 0


def _file_dies(faults: KillAt, sealer: Sealer, patched: pytest.MonkeyPatch) -> Faults:
    """For the point `file`: the last write of the key file ends between its copy and its place."""
    if faults.point != "file":
        return faults

    class Late:
        def at(self, point: str) -> None:
            if point == "rotate:before-drop":

                def killed(*_: Any) -> None:
                    faults.at("file")

                patched.setattr(Path, "replace", killed)

    return Late()
