"""An offset is committed when its message and all before it are done with."""

from random import Random

from forager.runners.kafka.consumer import PartitionOffsets


def test_the_first_open_message_is_what_is_committed() -> None:
    offsets = PartitionOffsets()
    for offset in (5, 6, 9):  # a transaction's marker takes an offset, too
        offsets.take(offset)
    assert (len(offsets), offsets.advance()) == (3, None)
    offsets.finish(6)
    assert (len(offsets), offsets.advance()) == (2, None), "the message before it is open"
    offsets.finish(5)
    assert (len(offsets), offsets.advance()) == (1, 7)
    offsets.finish(9)
    assert (len(offsets), offsets.advance(), offsets.advance()) == (0, 10, None)


def test_whatever_the_order_of_ends_nothing_open_is_ever_passed() -> None:
    dice = Random(7)
    offsets, ends = PartitionOffsets(), list(range(1_000))
    for offset in ends:
        offsets.take(offset)
    dice.shuffle(ends)
    committed = 0
    for count, offset in enumerate(ends, start=1):
        offsets.finish(offset)
        committed = offsets.advance() or committed
        assert committed == min(ends[count:], default=1_000)
