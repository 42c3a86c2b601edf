"""A type of sink with its edges: how a sink of this type is built from its row and the settings.

The composition root holds one tuple of these values; another package offers its own by an entry point. Like a
pipeline's `Feature`, it only names its parts, which are imported when needed: the driver of a sink that does not exist
is never loaded.
"""

from dataclasses import dataclass

from forager.kit.feature import Ref

ENTRY_POINTS = "forager.sinks"
"""Entry point group under which another package offers its own type of sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFeature:
    """One type of sink and its edges."""

    name: str
    """The type's name: in the ledger, in the API and on the command line."""
    summary: str
    """One sentence: where a sink of this type delivers to."""
    build: Ref
    """`build(service, row) -> Sink`: builds the sink of a row. Raises `Rejected` if a setting is missing or an option
    is not possible."""
    options: Ref | None = None
    """The class (pydantic) of what a row may choose beyond kinds and pipelines; None: nothing. `build` gets a row whose
    options have been validated by it."""
    settings: Ref | None = None
    """Its own settings: a class whose fields are declared with `setting(...)`; merged into the one tree."""
    from_settings: Ref | None = None
    """`from_settings(service) -> SinkRow | None`: the sink that the settings alone ask for, without a row in the
    ledger. It cannot be removed while they do."""
    search: Ref | None = None
    """`search(service, record) -> TextIndex | None`: the index of a record class that this type keeps outside the
    store, if the settings ask for it. Searches then use it, and the store keeps none of its own."""
    mirrors: Ref | None = None
    """`mirrors(settings) -> bool`: whether these settings configure a warehouse for sinks of this type, which mirror
    jobs and tasks (`Feature.mirror`). Pipelines then write every end of a task to the change log."""
    restores: Ref | None = None
    """`restores(service) -> RestoreSource`: reads back the jobs that sinks of this type have mirrored, for
    `forager restore --from NAME`. Raises `Rejected` if a setting is missing."""
    tables: Ref | None = None
    """`tables(settings, table, columns) -> Iterable[Mapping[str, Any]]`: reads rows of any table in the warehouse of
    this type, for reference data (`FromTable`). Raises `Rejected` if a setting, the table or every column is
    missing."""
    outboxes: Ref | None = None
    """`outboxes(database, rows) -> Awaitable[Mapping[str, Outbox]]`: by sink, what became of the messages that sinks of
    this type have handed on. None: a change is delivered when the sink has taken it."""
    check: Ref | None = None
    """`check(service, row) -> Sequence[str]`: looks whether a new sink can work, in a thread. Raises `Rejected` with a
    remedy if it cannot (a folder that cannot be written, a missing file of credentials). Returns warnings about what
    may pass: a server that does not answer now."""
    addable: bool = True
    """Whether rows of this type can be added. A type that is not addable exists only by its settings."""
