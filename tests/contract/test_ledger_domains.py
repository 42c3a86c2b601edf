"""Operators' rules for domains, on both stores: stored, changed in parts, cleared, and noticed by every worker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from forager.core.errors import Rejected
from forager.core.rules import FIELDS, Overrides, Rules
from forager.ledger.tables.domains import Domains
from tests.support.rig import Rig

EVERYTHING: dict[str, Any] = {
    "tokens_per_interval": 0.5,
    "interval_seconds": 12.25,
    "min_delay_ms": 100,
    "max_delay_ms": 900,
    "allowed_hours": {"start": 22, "end": 5},
    "respect_robots_txt": False,
    "max_concurrent_requests": 3,
    "crawl_delay_seconds": 1.5,
    "use_proxies": True,
    "proxy_cooldown_seconds": 7.5,
    "block_resources": ("image", "font"),
    "via": True,
}


@pytest.fixture
def domains(rig: Rig) -> Domains:
    return Domains(rig.ledger.database, rig.ledger.now_ms)


async def test_every_rule_is_stored_as_given(domains: Domains) -> None:
    assert set(EVERYTHING) == set(FIELDS)
    await domains.set("example.com", EVERYTHING)
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules.model_validate(EVERYTHING)
    assert kept.is_active


async def test_an_empty_list_of_blocked_types_differs_from_none(domains: Domains) -> None:
    await domains.set("example.com", {"block_resources": ()})
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules(block_resources=())


async def test_a_change_leaves_the_other_rules_and_null_takes_one_back(domains: Domains) -> None:
    await domains.set("example.com", {"tokens_per_interval": 1, "respect_robots_txt": False})
    await domains.set("example.com", {"tokens_per_interval": None, "allowed_hours": {"start": 6, "end": 22}})
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules.model_validate({"respect_robots_txt": False, "allowed_hours": {"start": 6, "end": 22}})


async def test_rules_that_two_operators_change_at_once_are_both_stored(domains: Domains) -> None:
    await asyncio.gather(
        domains.set("example.com", {"tokens_per_interval": 4}),
        domains.set("example.com", {"crawl_delay_seconds": 2}),
        domains.set("example.com", {"use_proxies": False}),
    )
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules(tokens_per_interval=4, crawl_delay_seconds=2, use_proxies=False)


async def test_replacing_stores_these_rules_and_no_others(domains: Domains) -> None:
    await domains.set("example.com", EVERYTHING)
    await domains.replace("example.com", Rules(min_delay_ms=5))
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules(min_delay_ms=5)


async def test_a_change_that_contradicts_stored_rules_is_refused_by_field(domains: Domains) -> None:
    await domains.set("example.com", {"min_delay_ms": 2_000})
    with pytest.raises(Rejected) as refused:
        await domains.set("example.com", {"max_delay_ms": 1_000, "tokens_per_interval": 0})
    assert {wrong.field for wrong in refused.value.fields} == {"max_delay_ms", "tokens_per_interval"}
    kept = await domains.get("example.com")
    assert kept is not None
    assert kept.rules == Rules(min_delay_ms=2_000)


async def test_a_name_has_one_spelling_and_nonsense_is_refused(domains: Domains) -> None:
    await domains.set("WWW.Example.COM.", {"min_delay_ms": 1})
    assert await domains.get("www.example.com") is not None
    for name in ("", "https://example.com", "two words", "*.example.com", "a..b"):
        with pytest.raises(Rejected) as refused:
            await domains.set(name, {"min_delay_ms": 1})
        assert [wrong.field for wrong in refused.value.fields] == ["lane"]


async def test_a_cleared_override_is_empty_and_not_listed(domains: Domains) -> None:
    await domains.set("example.com", EVERYTHING)
    assert await domains.clear("example.com")
    assert await domains.get("example.com") is None
    assert (await domains.list()).items == []
    assert not await domains.clear("example.com")
    assert not await domains.clear("never.example")


async def test_domains_are_listed_by_name_page_by_page(domains: Domains) -> None:
    names = [f"d{number:02}.example" for number in range(7)]
    for name in reversed(names):
        await domains.set(name, {"min_delay_ms": 1})
    await domains.clear(names[3])
    seen: list[str] = []
    cursor = None
    while True:
        page = await domains.list(cursor=cursor, limit=2)
        seen += [domain.name for domain in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [name for name in names if name != names[3]]


async def test_every_change_is_noticed_once_also_a_cleared_one_and_two_in_one_millisecond(domains: Domains) -> None:
    first = await domains.changed_since(None)
    assert first is not None
    assert first.rules == {}
    assert await domains.changed_since(first.marker) is None
    marker = first.marker
    changes: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: domains.set("a.example", {"min_delay_ms": 1}),
        lambda: domains.set("a.example", {"min_delay_ms": 2}),  # the store's clock stands still on SQLite
        lambda: domains.set("b.example", {"min_delay_ms": 3}),
        lambda: domains.clear("a.example"),
        lambda: domains.set("a.example", {"min_delay_ms": 2}),
        lambda: domains.clear("b.example"),
    )
    expected = ({"a": 1}, {"a": 2}, {"a": 2, "b": 3}, {"b": 3}, {"a": 2, "b": 3}, {"a": 2})
    for change, now in zip(changes, expected, strict=True):
        await change()
        found = await domains.changed_since(marker)
        assert found is not None
        assert {name[0]: rules.min_delay_ms for name, rules in found.rules.items()} == now
        assert await domains.changed_since(found.marker) is None
        marker = found.marker


async def test_a_spoilt_row_silences_itself_alone(rig: Rig, domains: Domains) -> None:
    await domains.set("a.example", {"min_delay_ms": 1, "max_delay_ms": 9})
    await domains.set("b.example", {"min_delay_ms": 2})
    rig.write("UPDATE domains SET min_delay_ms = -5, updated_at = updated_at + 1 WHERE domain_name = 'a.example'")
    found = await domains.changed_since(None)
    assert found is not None
    assert found.rules == {"a.example": Rules(max_delay_ms=9), "b.example": Rules(min_delay_ms=2)}


async def test_a_domain_is_switched_off_and_on_and_its_rules_stay__PR_7(domains: Domains) -> None:
    await domains.set("ruled.example", {"tokens_per_interval": 3})
    marks: list[Overrides] = []
    for name, active in (("ruled.example", False), ("new.example", False), ("new.example", True)):
        await domains.switch(name, active=active)
        seen = await domains.changed_since(marks[-1].marker if marks else None)
        assert seen is not None, "every change is noticed"
        marks.append(seen)
    assert [mark.inactive for mark in marks] == [{"ruled.example"}, {"ruled.example", "new.example"}, {"ruled.example"}]
    assert all(set(mark.rules) == {"ruled.example"} for mark in marks)
    kept = await domains.get("ruled.example")
    assert kept is not None
    assert (kept.is_active, kept.rules) == (False, Rules(tokens_per_interval=3))
    for name, active in (("ruled.example", False), ("new.example", True), ("never.example", True)):
        await domains.switch(name, active=active)
    assert await domains.changed_since(marks[-1].marker) is None, "what is so already changes nothing"
    assert await domains.get("never.example") is None
    await domains.clear("ruled.example")
    cleared = await domains.changed_since(None)
    assert cleared is not None
    assert (cleared.rules, cleared.inactive) == ({}, frozenset({"ruled.example"}))
