"""What every sink must pass: order, faults, replays, poison. Processes that are killed are beside, in `test_kills`."""

from tests.contract.sinks.conftest import Rig
from tests.support.deliveries import sink_table
from tests.support.sink_suite import in_order, log_of


async def test_a_new_sink_gets_everything_once_and_in_order_for_each_key(rig: Rig) -> None:
    await rig.make_changes()
    await rig.deliver()
    await rig.check()
    await rig.make_changes(2)
    await rig.deliver()
    await rig.check()
    assert any(len(about) > 1 for about in in_order(rig.member.wanted(await log_of(rig.engine.ledger))).values()) or (
        rig.member.keeps_states
    ), "something must have come more than once, or its order shows nothing"


async def test_an_answer_that_is_lost_after_the_effect_doubles_nothing(rig: Rig) -> None:
    await rig.make_changes()
    rig.sink.answers_lost = 4
    await rig.deliver()
    assert rig.sink.answers_lost == 0
    await rig.check()


async def test_a_replay_from_zero_has_the_same_effect_as_once(rig: Rig) -> None:
    await rig.make_changes()
    await rig.deliver()
    before = rig.effects
    batches = len(rig.sink.batches)
    await sink_table(rig.engine.ledger).replay(rig.sink.name, 0)
    await rig.deliver()
    assert len(rig.sink.batches) > batches, "it came again"
    assert rig.effects == before
    await rig.make_changes(1)
    await rig.deliver()
    await rig.check()


async def test_a_sink_that_was_down_gets_everything_when_it_is_back(rig: Rig) -> None:
    await rig.make_changes(1)
    await rig.deliver()
    rig.sink.down = True
    await rig.make_changes(2)
    for _ in range(3):
        assert not await rig.delivery.deliver_new()
        rig.clock.pass_(60)
    missing = len(rig.effects)
    rig.sink.down = False
    await rig.deliver()
    assert len(rig.effects) > missing
    await rig.check()


async def test_one_poison_change_is_set_aside_and_the_rest_goes_on(rig: Rig) -> None:
    await rig.make_changes()
    poison = await _that_matters(rig)
    rig.sink.poison = {poison}
    await rig.deliver()
    assert in_order(rig.effects) == in_order(await rig.wanted(without=poison))
    sinks = sink_table(rig.engine.ledger)
    (refused,) = (await sinks.refused(rig.sink.name)).items
    assert (refused.change, refused.tries) == (poison, 5)
    rig.sink.poison = set()
    await sinks.retry(rig.sink.name)
    await rig.deliver()
    assert sorted(rig.effects) == sorted(await rig.wanted()), "late, but there"
    assert (await sinks.refused(rig.sink.name)).items == []
    await sinks.replay(rig.sink.name, 0)
    await rig.deliver()
    assert sorted(rig.effects) == sorted(await rig.wanted()), "and a replay does not double it"


async def _that_matters(rig: Rig) -> int:
    """A change in the middle without which something would be missing."""
    changes = await log_of(rig.engine.ledger)
    alone = [change.id for change in changes if rig.member.wanted([change])]
    whole = rig.member.wanted(changes)
    return next(n for n in alone[1:] if rig.member.wanted([c for c in changes if c.id != n]) != whole)
