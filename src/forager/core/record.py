"""Records: typed things found, with a natural key. A record's table is made from its class.

Scalars are columns, everything else is a JSON leaf, indexes are declared on the class. A field that is None says
"this answer did not tell", and never overwrites a known value.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True, slots=True)
class Index:
    columns: tuple[str, ...]


class Record(BaseModel):
    # Neither JSON nor every database knows a number that is infinite, or none.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str]
    table: ClassVar[str]
    key_field: ClassVar[str]
    """The field that holds the natural key."""
    scope: ClassVar[Literal["world", "job"]] = "world"
    """`world`: one row per key for ever, later sightings merge. `job`: one row per (job, key), the first wins."""
    indexes: ClassVar[tuple[Index, ...]] = ()
    identity: ClassVar[str | None] = None
    """Kinds with the same identity share aliases: a place and its sightings are known by the same names."""

    def key(self) -> str:
        """Natural identity."""
        return str(getattr(self, self.key_field))

    def other_keys(self) -> tuple[str, ...]:
        """Weaker names of the same thing that this answer shows; they become aliases of `key()`."""
        return ()
