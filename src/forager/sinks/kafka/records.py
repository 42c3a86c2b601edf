"""Any kind of change in a Kafka topic: what a row of the type `kafka` publishes."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from forager.core.change import Change
from forager.kit.change_json import encodable
from forager.kit.publication import Message, Publication

TOPIC_NAME = r"^[A-Za-z0-9._-]{1,200}$"
OP, KIND, VERSION = "forager-op", "forager-kind", "forager-version"
"""Headers of every message, beside the number of its change."""


class TopicOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    topic: Annotated[str, Field(pattern=TOPIC_NAME)] | None = Field(
        default=None, description="One topic for everything (default: a topic for each kind, with its name)."
    )
    key: Literal["record", "job"] = Field(
        default="record", description="Messages with the same key keep their order: by `record` or by `job`."
    )


def publication_of(kinds: frozenset[str], options: TopicOptions) -> Publication:
    """Return what publishes every change of these kinds, whole, as the API shows it."""

    def message(change: Change) -> Message:
        by_job = options.key == "job" and change.job is not None
        return Message(
            options.topic or change.kind,
            str(change.job) if by_job else change.identity,
            encodable(change),
            {OP: change.op, KIND: change.kind, VERSION: str(change.version)},
        )

    return Publication((options.topic,) if options.topic else tuple(sorted(kinds)), kinds, message)
