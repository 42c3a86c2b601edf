"""One message to one receiver. What is sent is fixed here; when it was sent, and its signature, belong to each try."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from forager.core.task import Task

DEFAULT_RECEIVER = "default"
"""The receiver in the settings: its URL may hold a token, so it is looked up when it is needed."""
LANE_FAMILY = "webhook:"


class DeliveryJob(BaseModel):
    """The standing job of one receiver: it ends whenever all is delivered, and goes on with the next message."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receiver: str = Field(description="A URL, or `default` for the one in the settings.")


class Delivery(Task):
    kind: ClassVar[str] = "webhook"

    id: str
    """The message's own: the same at every try, so that a receiver knows it again."""
    receiver: str
    host: str
    body: str
    """Exactly what is sent, byte by byte: a signature over it must never depend on who writes JSON how."""
    at: int
    """When what it tells of happened, in Unix milliseconds."""

    def key(self) -> str:
        return self.id

    def lane(self) -> str:
        return LANE_FAMILY + self.host
