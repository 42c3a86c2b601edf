"""The number of messages that wait for a receiver that accepts none."""

from itertools import pairwise

from forager.sinks.webhook.changes import LONGEST_PAUSE, Backlog


def test_a_receiver_that_accepts_nothing_gets_a_batch_after_growing_pauses() -> None:
    backlog, made, waiting, now = Backlog(most_waiting=1_000), [], 0, 0.0
    while now < 3_600:
        if not backlog.room_in(waiting, accepted=7, now=now):
            made.append(now)
            waiting += 500
            backlog.made(waiting, 7, now)
            assert backlog.is_stuck == (len(made) > 2)
        now += 0.5
    assert made[:3] == [0.0, 0.5, 1.5], "two batches until many wait, then after one second"
    pauses = [later - earlier for earlier, later in pairwise(made[2:])]
    assert pauses[:8] == [2, 4, 8, 16, 32, 64, 128, 256]
    assert set(pauses[8:]) == {LONGEST_PAUSE}


def test_a_receiver_that_accepts_some_gets_more_however_many_wait() -> None:
    backlog = Backlog(most_waiting=10)
    backlog.made(50_000, 9, now=0.0)
    assert backlog.room_in(50_000, 9, now=0.0) == 1.0, "whether it accepts some is not known yet"
    for accepted in range(5):
        assert backlog.room_in(50_000, accepted, now=0.0) == 0.0
        backlog.made(50_000, accepted, now=0.0)
    assert backlog.room_in(50_000, 4, now=0.5) == 0.5
    assert backlog.room_in(50_000, 2, now=0.5) == 0.0, "messages that were pruned since are no reason to wait"
    assert not backlog.is_stuck


def test_asking_for_room_uses_up_none() -> None:
    backlog = Backlog(most_waiting=10)
    backlog.made(50, 0, now=0.0)
    assert [backlog.room_in(50, 0, now=1.0) for _ in range(60)] == [0.0] * 60


def test_the_first_message_that_is_accepted_after_an_outage_ends_the_pauses() -> None:
    backlog, now = Backlog(most_waiting=10), 0.0
    for _ in range(2_000):
        if not backlog.room_in(100, 0, now):
            backlog.made(100, 0, now)
        now += 1.0
    assert backlog.room_in(100, 0, now) > 0
    assert backlog.room_in(100, 1, now) == 0.0
    backlog.made(100, 1, now)
    assert backlog.room_in(100, 1, now) == 1.0
    assert backlog.room_in(9, 1, now) == 0.0, "few wait"
