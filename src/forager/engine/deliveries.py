"""The deliveries of one process, by sink. Some are added and removed while the others run."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping

from forager.engine.deliver import Delivery


class Deliveries(Mapping[str, Delivery]):
    """A mapping from the name of a sink to its delivery, and the tasks in which these run.

    Nothing runs before `start`; a delivery that is added later starts at once.
    """

    def __init__(self, deliveries: Iterable[Delivery] = ()) -> None:
        self._all = {each.sink.name: each for each in deliveries}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def __getitem__(self, name: str) -> Delivery:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._all))

    def __len__(self) -> int:
        return len(self._all)

    def add(self, delivery: Delivery) -> None:
        """Add the delivery of a sink. There must be none of that name."""
        name = delivery.sink.name
        if name in self._all:
            raise AssertionError(f"the sink {name} has a delivery")
        self._all[name] = delivery
        if self._running:
            self._tasks[name] = asyncio.create_task(delivery.run())

    async def remove(self, name: str, grace: float) -> None:
        """Stop the delivery of a sink, if there is one. The current batch has `grace` seconds to finish."""
        delivery = self._all.pop(name, None)
        if delivery is not None:
            delivery.stop()
            await _end([task] if (task := self._tasks.pop(name, None)) else [], grace)

    def start(self) -> None:
        """Run every delivery until `stop`."""
        self._running = True
        for each in self._all.values():
            each.reopen()
        self._tasks = {name: asyncio.create_task(each.run()) for name, each in self._all.items()}

    async def stop(self, grace: float) -> None:
        """Stop every delivery. Current batches have `grace` seconds to finish."""
        self._running = False
        for each in self._all.values():
            each.stop()
        tasks, self._tasks = list(self._tasks.values()), {}
        await _end(tasks, grace)


async def _end(tasks: list[asyncio.Task[None]], grace: float) -> None:
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
