"""The state of Forager itself as records, so that rules can be about it: sinks that fail, dead letters, money.

They are written once a minute while a rule is about one of them, and only when something differs.
"""

from typing import ClassVar

from pydantic import ConfigDict

from forager.core.record import Clear, Record


class SinkState(Record):
    """A sink: whether it works."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"sink": "warehouse", "failing": True}]})

    kind: ClassVar[str] = "sink_state"
    table: ClassVar[str] = "sink_states"
    key_field: ClassVar[str] = "sink"

    sink: str
    failing: bool | None = None
    stalled: bool | None = None
    """It fails and has delivered nothing for five minutes."""
    set_aside: int | None = None
    """Changes that it refused."""
    error: str | Clear | None = None


class DeadLetters(Record):
    """Failed tasks of a pipeline that wait for a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "products", "dead_letters": 12}]})

    kind: ClassVar[str] = "dead_letters"
    table: ClassVar[str] = "dead_letter_states"
    key_field: ClassVar[str] = "name"

    name: str
    """The pipeline."""
    dead_letters: int | None = None


class Spend(Record):
    """US dollars that a pipeline has spent."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "places", "today": 1.25, "month": 40.0}]})

    kind: ClassVar[str] = "spend"
    table: ClassVar[str] = "spend_states"
    key_field: ClassVar[str] = "name"

    name: str
    """The pipeline."""
    today: float | None = None
    month: float | None = None


SYSTEM_KINDS = frozenset({SinkState.kind, DeadLetters.kind, Spend.kind})
