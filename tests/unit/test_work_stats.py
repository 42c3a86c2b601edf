"""Counters for monitors: their labels are bounded, whatever the number of sites."""

from forager.engine.stats import MOST_LANES, OTHER, LaneTally


def test_lanes_are_counted_by_name_up_to_a_hundred_and_together_from_then_on() -> None:
    tally = LaneTally()
    for number in range(MOST_LANES):
        tally.of(f"site{number}.example").requests += 1
    assert OTHER not in tally.by_name

    for number in range(MOST_LANES, MOST_LANES + 50):
        tally.of(f"site{number}.example").requests += 1
    tally.of("site0.example").requests += 1

    assert len(tally.by_name) == MOST_LANES + 1
    assert tally.by_name[OTHER].requests == 50
    assert tally.by_name["site0.example"].requests == 2
