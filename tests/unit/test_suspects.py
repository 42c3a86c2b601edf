"""The choice of the suspects that run next: pure, and used by both stores."""

from forager.ledger.rules.scheduling import MOST_SUSPECTS, Suspect, choose, group_size


def suspect(task: int, **more: int | None) -> Suspect:
    row = {"lane": 1, "together": 4, "price": 1, "job": 1, "running": 0, "concurrency": None, "max_cost": None}
    return Suspect(**{"task": task, "committed": 0, **row, **more})  # type: ignore[arg-type]


def test_the_smallest_group_goes_alone_however_many_wait__R14() -> None:
    rows = [suspect(1, together=2), suspect(2, together=2), suspect(3, together=2), suspect(4, together=4)]
    assert choose(rows, None) == ([1, 2], set())


def test_a_lane_takes_no_more_suspects_than_it_has_room_for__PL_11() -> None:
    rows = [suspect(1, lane=1), suspect(2, lane=1), suspect(3, lane=2), suspect(4, lane=3)]
    assert choose(rows, {1: 1, 2: 5, 3: 0}) == ([1, 3], set())
    assert choose(rows, {}) == ([], set())


def test_a_budget_binds_suspects_and_a_job_that_cannot_pay_for_one_is_reported__PL_11() -> None:
    rich = [suspect(n, max_cost=2, committed=0) for n in (1, 2, 3)]
    assert choose(rich, None) == ([1, 2], set())
    assert choose([suspect(1, max_cost=2, committed=2)], None) == ([], {1})
    assert choose([suspect(1, max_cost=2, committed=2, running=1)], None) == ([], set()), "it may yet get some back"


def test_groups_halve_down_to_one_and_fit_their_column() -> None:
    assert [group_size(n) for n in (300, 3, 1)] == [150, 1, 1]
    assert group_size(100_000) == MOST_SUSPECTS < 2**15
