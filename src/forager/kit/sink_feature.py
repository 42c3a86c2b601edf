"""A sink with its edges: how it is built from settings, and which settings it has.

The composition root holds one tuple of these values; another package offers its own by an entry point. Like a
pipeline's `Feature`, it only names its parts, which are imported when needed: the driver of a sink that is not
configured is never loaded.
"""

from dataclasses import dataclass

from forager.kit.feature import Ref

ENTRY_POINTS = "forager.sinks"
"""Entry point group under which another package offers its own sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFeature:
    """One sink and its edges."""

    name: str
    """The sink's name: in the ledger, in URLs and on the command line."""
    summary: str
    """One sentence: where it delivers to."""
    build: Ref
    """`build(service) -> Sink | None`: builds the sink from its settings; None if it is not configured."""
    settings: Ref | None = None
    """Its own settings: a class whose fields are declared with `setting(...)`; merged into the one tree."""
