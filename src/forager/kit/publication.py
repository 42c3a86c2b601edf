"""What a pipeline publishes to a message broker: which of its changes, on which topic, in which form.

Pure: a publication knows no broker. A sink for a broker asks for the message of each change and sees to the rest.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from forager.core.change import Change


@dataclass(frozen=True, slots=True)
class Message:
    topic: str
    key: str
    """Messages with the same key keep their order."""
    value: Mapping[str, Any]
    """As JSON: what `orjson` encodes, so also fields of `Change.fields`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside those that every message has: the number of its change, and its source."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks of one kind whose beginning is published, so that consumers of the topic can claim them."""

    kind: str
    topic: str
    lane: str
    """The lane of these tasks."""
    queue: str
    """The queue of the lane, and the name of the consumer group."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A pipeline's `Feature.publication`."""

    topics: tuple[str, ...]
    """Every topic that `message` names, but those of the stages."""
    kinds: frozenset[str]
    """The kinds of changes of which some are published."""
    message: Callable[[Change], Message | None]
    """The message of a change of this pipeline; None if it is not published. The message of a queued task of a stage
    contains its public id as `task_id`."""
    stages: tuple[Stage, ...] = ()
    """Published only where consumers do the work: then new tasks of these kinds are offered (`Pipeline.tells`)."""
