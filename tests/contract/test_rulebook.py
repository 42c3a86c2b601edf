"""Rules that change while Forager runs: by the file, by an operator; and a file that nobody can use changes nothing."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from forager.core.errors import Rejected
from forager.core.ledger import OwnedLane
from forager.core.pipeline import Breaker
from forager.engine.lanes.lane import LaneRun
from forager.engine.lanes.rules.precedence import ground
from forager.engine.lanes.rules.rulebook import Rulebook
from forager.ledger.tables.domains import Domains
from tests.support.clock import FakeClock
from tests.support.rig import Rig
from tests.support.rig_pipelines import PIPELINE

RULES = "domains:\n  shop.example:\n    tokens_per_interval: {}\n"


@pytest.fixture
def domains(rig: Rig) -> Domains:
    return Domains(rig.ledger.database, rig.ledger.now_ms)


async def opened(domains: Domains, path: Path | None) -> Rulebook:
    return await Rulebook.open(domains, [PIPELINE], path=path, ground=ground(), breaker=Breaker())


def replaced(path: Path, text: str) -> None:
    """As editors do: a new file takes the place of the old one."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.replace(path)


async def test_without_a_file_the_shipped_rules_hold__SC_7(domains: Domains) -> None:
    rules = await opened(domains, None)
    assert rules.lane_name("https://www.linkedin.com/in/x") == "linkedin.com"
    assert (rules.lane_for("linkedin.com").rate, rules.lane_for("linkedin.com").per) == (1, 15)
    assert rules.lane_for("api") == PIPELINE.lanes[0]
    assert not await rules.refresh()


async def test_a_changed_file_is_in_force_without_a_restart__SC_7(domains: Domains, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES.format(3))
    rules = await opened(domains, path)
    assert rules.lane_for("shop.example").rate == 3
    assert not await rules.refresh()
    replaced(path, RULES.format(4))
    assert await rules.refresh()
    assert rules.lane_for("shop.example").rate == 4


async def test_a_file_that_became_invalid_changes_nothing_and_the_reason_is_logged(
    domains: Domains, tmp_path: Path
) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES.format(3))
    rules = await opened(domains, path)
    for text, says in ((RULES.format("fast"), "line 3"), ("", "empty"), ("domains: [", "not YAML")):
        replaced(path, text)
        assert not await rules.refresh()
        assert rules.trouble is not None
        assert says in rules.trouble
        assert rules.lane_for("shop.example").rate == 3
        assert not await rules.refresh()
        assert rules.trouble is not None
    path.unlink()
    assert not await rules.refresh()
    assert "cannot be read" in str(rules.trouble)
    path.write_text(RULES.format(5))
    assert await rules.refresh()
    assert (rules.trouble, rules.lane_for("shop.example").rate) == (None, 5)


async def test_a_start_with_an_unusable_file_is_refused(domains: Domains, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    with pytest.raises(Rejected, match="cannot be read"):
        await opened(domains, path)
    path.write_text(RULES.format("fast"))
    with pytest.raises(Rejected, match="line 3"):
        await opened(domains, path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Rejected, match="UTF-8"):
        await opened(domains, path)


async def test_an_override_of_another_process_is_in_force_at_the_next_look(domains: Domains) -> None:
    rules = await opened(domains, None)
    await domains.set("www.linkedin.com", {"tokens_per_interval": 3})
    assert await rules.refresh()
    assert rules.lane_name("https://www.linkedin.com/") == "www.linkedin.com"
    lane = rules.lane_for("www.linkedin.com")
    assert (lane.rate, lane.per, lane.crawl_delay) == (3, 15, False)
    assert not await rules.refresh()
    await domains.clear("www.linkedin.com")
    assert await rules.refresh()
    assert rules.lane_name("https://www.linkedin.com/") == "linkedin.com"


@pytest.mark.parametrize("name", ["shop.example", "linkedin.com"])
async def test_a_domain_that_is_switched_off_lets_nothing_start_until_it_is_on_again__PR_7(
    domains: Domains, name: str
) -> None:
    rules, clock = await opened(domains, None), FakeClock(datetime(2026, 3, 2, 12, tzinfo=UTC))
    run = LaneRun(OwnedLane(id=1, name=name, state={}, epoch=1), rules.lane_for(name), clock)
    other = rules.lane_for("other.example")
    assert run.most(10) > 0
    await domains.switch(name, active=False)
    assert await rules.refresh()
    run.adopt(rules.lane_for(name))
    for _ in range(3):
        assert run.most(10) == 0
        assert run.closed_for() > 0
        clock.advance(run.closed_for())
    assert rules.lane_for("other.example") == other
    await domains.switch(name, active=True)
    assert await rules.refresh()
    run.adopt(rules.lane_for(name))
    assert run.most(10) > 0
