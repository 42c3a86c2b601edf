"""The plans of a submission are read once, encoded once each, cut into chunks, and read on while one is written."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from forager.core.task import Plan
from forager.ledger.rules import jobs
from forager.ledger.rules.jobs import Planned, encode
from tests.support.engine import until
from tests.support.rig_pipelines import Call, catalog

CHUNK, IN_ONE_GO = 4, 12


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "CHUNK", CHUNK)
    monkeypatch.setattr(jobs, "IN_ONE_GO", IN_ONE_GO)


def plans(*names: object) -> Iterator[Plan]:
    for name in names:
        yield Plan(Call(name=str(name)))


async def chunks(names: range | list[int]) -> list[list[str]]:
    read = await Planned.read(plans(*names), catalog())
    assert not read.whole
    return [[each.key for each in chunk] async for chunk in read.chunks()]


async def test_what_one_transaction_can_write_is_whole() -> None:
    read = await Planned.read(plans(*range(IN_ONE_GO)), catalog())
    assert read.whole
    assert [each.key for each in read.first] == [str(n) for n in range(IN_ONE_GO)]


@pytest.mark.parametrize("count", [IN_ONE_GO + 1, 15, 16, 17])
async def test_every_chunk_but_the_last_is_full(count: int) -> None:
    cut = await chunks(range(count))
    assert [key for chunk in cut for key in chunk] == [str(n) for n in range(count)]
    assert [len(chunk) for chunk in cut[:-1]] == [CHUNK] * (len(cut) - 1)


async def test_a_repeat_is_left_out_of_what_was_read_with_it() -> None:
    """One of an earlier reading is the table's affair. Repeats alone do not end the plan."""
    cut = await chunks([0, 0, *range(1, 11), 10, 10, 10, 10, 11, 11, 12])
    assert cut == [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9", "10"], ["10"], ["11", "12"]]


async def test_the_next_is_read_while_one_is_written_but_no_more() -> None:
    taken: list[int] = []

    def counted() -> Iterator[Plan]:
        for number in range(100):
            taken.append(number)
            yield Plan(Call(name=str(number)))

    read = await Planned.read(counted(), catalog())
    async with aclosing(read.chunks()) as cut:
        await anext(cut)
        await until(lambda: len(taken) >= IN_ONE_GO + CHUNK)
        await asyncio.sleep(0.05)
    assert len(taken) <= IN_ONE_GO + CHUNK + 1, "everything is read before anything is written"


async def test_a_reader_that_stops_waits_for_the_part_being_read() -> None:
    """Or a plan would go on in a thread after its submission has failed."""
    reading, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[Plan]:
        yield from plans(*range(IN_ONE_GO + 1))
        reading.set()
        go_on.wait(60)
        yield from plans("last")

    read = await Planned.read(slow(), catalog())
    cut = read.chunks()
    await anext(cut)
    await asyncio.to_thread(reading.wait, 60)
    closing = asyncio.create_task(cut.aclose())
    await asyncio.sleep(0.05)
    assert not closing.done()
    go_on.set()
    await closing


async def test_a_plan_that_fails_while_it_is_read_fails_the_submission() -> None:
    def broken() -> Iterator[Plan]:
        yield from plans(*range(IN_ONE_GO + 3))
        raise ValueError("no more")

    read = await Planned.read(broken(), catalog())
    with pytest.raises(ValueError, match="no more"):
        [chunk async for chunk in read.chunks()]


async def test_the_reason_for_stopping_is_raised_rather_than_the_state_of_the_rest() -> None:
    def broken() -> Iterator[Plan]:
        yield from plans(*range(IN_ONE_GO + 1))
        raise ValueError("no more")

    async def write() -> None:
        async with aclosing(read.chunks()) as cut:
            async for _ in cut:
                raise OSError("full")

    read = await Planned.read(broken(), catalog())
    with pytest.raises(OSError, match="full"):
        await write()


def test_the_first_plan_of_a_key_counts() -> None:
    first, second = Plan(Call(name="a"), rank=1), Plan(Call(name="a"), rank=2, after="b")
    (encoded,) = encode([first, second], catalog())
    assert (encoded.rank, encoded.after) == (1, None)
