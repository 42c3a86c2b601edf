"""The task for one message to one receiver. The body is fixed; the time and the signature belong to each try."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from forager.core.task import Task

DEFAULT_RECEIVER = "default"
"""Stands for the receiver in the settings. Its URL may contain a token, so it is not stored but looked up when
needed."""
LANE_FAMILY = "webhook:"


class DeliveryJob(BaseModel):
    """The standing job of one receiver: it ends whenever everything is delivered, and is reopened by the next
    message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receiver: str = Field(description="A URL, or `default` for the one in the settings.")


class Delivery(Task):
    kind: ClassVar[str] = "webhook"

    id: str
    """Id of the message, the same at every try, so that a receiver recognises repeats."""
    receiver: str
    host: str
    body: str
    """The exact bytes that are sent, so that the signature never depends on how JSON is formatted."""
    at: int
    """Time of the reported event, in Unix milliseconds."""
    sink: str = "webhook"
    """The sink that made the message."""

    def key(self) -> str:
        return self.id

    def lane(self) -> str:
        return LANE_FAMILY + self.host
