"""Reads and encodes plans before a transaction begins.

So the transaction holds its locks (on SQLite, the one writer) no longer than the database needs. A big job is read in a
thread, so that it does not block the heartbeat. Only the few children of a task are encoded during its settlement.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple
from uuid import UUID

from forager.core.ledger import NewJob
from forager.core.task import Plan
from forager.ledger.catalog import Catalog
from forager.ledger.shared.job_creation import CHUNK, IN_ONE_GO, not_in_order
from forager.ledger.shared.text import clean

SMALL = 200
"""Up to so many plans are encoded faster than a thread would start."""


class Encoded(NamedTuple):
    """A plan in the form of its row."""

    kind: str
    key: str
    lane: str
    rank: int
    after: str | None
    price: int
    body: bytes
    due: int | None
    """Unix milliseconds; None: at once."""
    retries: int | None


class Whole(NamedTuple):
    """A job that one transaction can write."""

    job: NewJob
    plans: Sequence[Encoded]
    """No two alike."""


class Part(NamedTuple):
    """Consecutive tasks of a job that is sent in parts, as `Ledger.add_part` takes them."""

    job: UUID
    first: int
    plans: Sequence[Encoded]
    more: bool

    def missing(self, total: int) -> Sequence[Encoded]:
        """Return the plans that an open job of so many tasks may lack. Raises `Conflict` if they do not continue it.

        Some of them may be equal to tasks of earlier parts, which do not count again. So positions cannot show whether
        a started job has a part: that is looked up by kind and key.
        """
        if self.first > total:
            raise not_in_order(self.job, total, self.first)
        return self.plans[total - self.first :]


async def encode_all(plan: Iterable[Plan], catalog: Catalog) -> list[Encoded]:
    """Encode all plans at once: many of them in a thread, in which they are also made if `plan` is a generator."""
    rest = iter(plan)
    few = list(islice(rest, SMALL + 1))
    if len(few) <= SMALL:
        return encode(few, catalog)
    return await asyncio.to_thread(encode, chain(few, rest), catalog)


def encode(plans: Iterable[Plan], catalog: Catalog) -> list[Encoded]:
    """Encode the first plan of each (kind, key)."""
    encoded: dict[tuple[str, str], Encoded] = {}
    lanes: dict[str, str] = {}
    prices, lane_of, new = catalog.prices, catalog.lane_of, tuple.__new__  # a quarter of the time of `Encoded(…)`
    for plan in plans:
        task, after = plan.task, plan.after
        name = kind, key = task.kind, clean(task.key())
        if name in encoded:
            continue
        named = task.lane()
        lane = lanes.get(named)
        if lane is None:
            lane = lanes[named] = clean(lane_of(named))
        body = task.__pydantic_serializer__.to_json(task, exclude_defaults=True)
        after = None if after is None else clean(after)
        due = None if plan.due is None else _ms(plan.due)
        encoded[name] = new(Encoded, (kind, key, lane, plan.rank, after, prices.get(kind, 0), body, due, plan.retries))
    return list(encoded.values())


def _ms(due: datetime) -> int:
    if due.tzinfo is None:
        raise ValueError("`due` of a plan needs a time zone: datetime.now(UTC) + …")
    return round(due.timestamp() * 1000)


class Planned:
    """The plans of one submission. Use `await Planned.read(…)`."""

    def __init__(self, plan: Iterable[Plan], catalog: Catalog) -> None:
        self._plans = iter(plan)
        self._catalog = catalog
        self.first: list[Encoded] = []
        self.whole = True
        """Whether `first` is all: then one transaction can write them."""

    @classmethod
    async def read(cls, plan: Iterable[Plan], catalog: Catalog) -> "Planned":
        planned = cls(plan, catalog)
        if isinstance(plan, list) and len(plan) <= SMALL:
            planned._begin()
        else:
            await asyncio.to_thread(planned._begin)
        return planned

    async def chunks(self) -> AsyncGenerator[list[Encoded]]:
        """Yield all plans in chunks, once; the next chunk is read while one is written. Close it if you stop early:
        that waits for the read in progress, because a thread cannot be stopped."""
        first, self.first = self.first, []
        ready = deque(first[start : start + CHUNK] for start in range(0, len(first), CHUNK))
        while ready:
            ahead = asyncio.create_task(asyncio.to_thread(self._next, CHUNK))
            try:
                yield ready.popleft()
            except GeneratorExit:
                with suppress(Exception):  # why it was closed says more
                    await ahead
                raise
            if more := await ahead:
                ready.append(more)

    def _begin(self) -> None:
        self.first = self._next(IN_ONE_GO)
        one_more = list(islice(self._plans, 1))
        self.whole = not one_more
        self._plans = chain(one_more, self._plans)

    def _next(self, most: int) -> list[Encoded]:
        """Return the distinct plans among the next ones; empty at the end."""
        return encode(islice(self._plans, most), self._catalog)
