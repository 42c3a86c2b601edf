"""Reads the number of a task from a message of the Kafka sink. Pure."""

from uuid import UUID

import orjson
from confluent_kafka import Message

from forager.core.ids import task_numbers
from forager.sinks.kafka.published import SOURCE


def task_of(message: Message, source: str) -> int | None:
    """Return the task that a message names; None if it is not one of ours. `source`: the name under which our ledger
    publishes, since another ledger's numbers mean other tasks."""
    headers = dict(message.headers() or ())
    named = headers.get(SOURCE)
    if (named.decode(errors="replace") if isinstance(named, bytes) else named) != source:
        return None
    try:
        numbers = task_numbers(UUID(orjson.loads(message.value() or b"")["task_id"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return None if numbers is None else numbers[1]
