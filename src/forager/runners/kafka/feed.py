"""Hands the tasks of one topic's messages to the worker, and reports to the consumer which messages are done with.

Lives on the worker's event loop; the consumer calls it from its thread through `call_soon_threadsafe`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

import structlog
from confluent_kafka import Consumer, Message

from forager.engine.claims import Claims
from forager.kit.publication import Stage
from forager.runners.kafka.consumer import Place, TopicConsumer
from forager.runners.kafka.messages import task_of

log = structlog.get_logger("forager.kafka")


class StageFeed:
    """The tasks of one stage that this worker was named and that are not over."""

    def __init__(
        self,
        stage: Stage,
        connect: Callable[[], Consumer],
        claims: Claims,
        *,
        source: str,
        prefix: str = "",
        most: int,
        is_stopping: Callable[[], bool],
    ) -> None:
        """`source`: the name under which our ledger publishes. `most`: how many messages are taken at a time."""
        self.stage = stage
        self._claims = claims
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._places: dict[int, list[Place]] = {}
        """By task: its messages. Usually one; a repeated message is a second."""
        self._is_puzzled = False
        self.consumer = TopicConsumer(
            prefix + stage.topic,
            connect,
            most=most,
            arrived=lambda batch: self._on_loop(self._arrived, batch),
            revoked=lambda assignments: self._on_loop(self._revoked, assignments),
            is_stopping=is_stopping,
        )

    def over(self, tasks: Collection[int]) -> None:
        """Note that these tasks are over, as far as they are ours."""
        for task in tasks:
            self.consumer.finish(self._places.pop(task, ()))

    def _on_loop(self, call: Callable[..., None], *given: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *given)

    def _arrived(self, batch: Sequence[tuple[Place, Message]]) -> None:
        new: list[int] = []
        for place, message in batch:
            task = task_of(message, self._source)
            if task is None:
                self._skip(place, message)
            elif task in self._places:
                self._places[task].append(place)
            else:
                self._places[task] = [place]
                new.append(task)
        if new:
            self._claims.add(self.stage.lane, new)

    def _skip(self, place: Place, message: Message) -> None:
        self.consumer.finish([place])
        if not self._is_puzzled:
            self._is_puzzled = True
            log.warning(
                "a message names no task of this ledger and is skipped; further ones are skipped without a word",
                topic=message.topic(),
                offset=place.offset,
                partition=place.partition,
            )

    def _revoked(self, assignments: Collection[int]) -> None:
        """Claim none of the tasks whose messages another consumer gets now. Those that run here go on."""
        gone: defaultdict[int, list[Place]] = defaultdict(list)
        for task, places in self._places.items():
            if all(place.assignment in assignments for place in places):
                gone[task] = places
        for task in self._claims.forget(gone.keys()):
            del self._places[task]
