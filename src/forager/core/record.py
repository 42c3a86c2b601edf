"""Records: typed things found, with a natural key. A record's table is made from its class.

Scalars are columns, everything else is a JSON leaf, indexes are declared on the class. A field that is None is missing
in this answer and never overwrites a known value; `CLEAR` removes one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, Self, TypeVar, final

from pydantic import BaseModel, ConfigDict
from pydantic_core import core_schema


@final
class Clear:
    """The type of `CLEAR`. A field that may be cleared names it: `next_at: datetime | Clear | None = None`."""

    __slots__ = ()

    def __new__(cls) -> "Clear":
        return _CLEAR[0] if _CLEAR else super().__new__(cls)

    def __repr__(self) -> str:
        return "CLEAR"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> core_schema.CoreSchema:
        """Accept only `CLEAR` itself, so that no value from a page can be taken for it. In JSON it is null."""
        shown = core_schema.plain_serializer_function_ser_schema(lambda _: None)
        return core_schema.is_instance_schema(cls, serialization=shown)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "null"}


_CLEAR: list[Clear] = []
CLEAR: Final = Clear()
"""Set this field to NULL. (None leaves the stored value as it is.)"""
_CLEAR.append(CLEAR)


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a record's table, in the order of its columns."""

    columns: tuple[str, ...]
    """Fields of the record, or columns that every record table has (`id`, `last_seen_at` …); `"price DESC"` sorts that
    one in descending order."""
    where: str | None = None
    """Only rows that meet this SQL condition are in the index. A query uses it if it states the same condition."""
    unique: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns without their direction."""
        return tuple(column.split()[0] for column in self.columns)


class Record(BaseModel):
    """Base class of everything that a step finds. The class attributes define how the ledger stores it."""

    # JSON and some databases have no infinity and no NaN.
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: ClassVar[str]
    table: ClassVar[str]
    key_field: ClassVar[str]
    """The field that holds the natural key."""
    scope: ClassVar[Literal["world", "job"]] = "world"
    """`world`: one row per key for ever, later sightings merge. `job`: one row per (job, key), the first wins."""
    indexes: ClassVar[tuple[Index, ...]] = ()
    identity: ClassVar[str | None] = None
    """Kinds with the same identity share aliases, such as a place and its sightings."""
    quiet: ClassVar[frozenset[str]] = frozenset()
    """Fields that are written without a change and without a new version: due times, ETags, ids of stored pages.
    They are in the table and in exports, but not in the change log. World scope only."""

    blobs: ClassVar[tuple[str, ...]] = ()
    """Fields that hold the `blob:` URL of a stored page, or a mapping of some: it is kept as long as a row names it."""

    search: ClassVar[Mapping[str, str]] = {}
    """Text fields that full-text search finds the record by, each with its weight: `A` (most), `B`, `C` or `D`. World
    scope only. The sink `search` keeps the index."""

    def key(self) -> str:
        """Natural identity."""
        return str(getattr(self, self.key_field))

    def other_keys(self) -> tuple[str, ...]:
        """Return weaker keys of the same thing in this answer; they become aliases of `key()`."""
        return ()

    def derive(self, before: Self | None) -> Mapping[str, Any]:
        """Return the values of derived fields, by name. Override it in a class that has some. World scope only.

        The ledger calls this on the *merged* record, inside the settlement: fields that the answer left out have their
        stored values, and `before` is the record as it was stored (None if it is new). So a content hash does not
        change because a page left a field out, and a recrawl interval can depend on whether the price changed.

        It must be a pure function of its two arguments: it may run more than once for one sighting. A derived field
        overwrites what the step put there; None is stored as NULL. Values are not validated.
        """
        return {}


# Building pydantic models faster than by calling them, for the few places where that is the hottest line.
#
# Everything else builds models the ordinary way: `Place(title=…)`. Measured with Python 3.11 and pydantic 2.14, in µs:
#
# | what | ordinary | here |
# |---|---|---|
# | a record of 12 checked fields (`Place`) | 2.3 | 0.6 (`trusted`) |
# | a task of 5 fields (`Query`) | 1.4 | 1.0 (`validated`) |
#
# A page of ten results is twenty records, and a job can have a million tasks. Use `trusted` only for values that were
# checked a moment before, and hold a test against it that compares the result with a validated model.


M = TypeVar("M", bound=BaseModel)

# A pydantic model's slots cannot be set by name; these are the slot descriptors, which unpickling also uses.
_set_values, _set_given, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def trusted(model: type[M], fields: dict[str, Any]) -> M:
    """Return an instance of `model` with these fields, unchecked. They must be complete and of the right types.

    No validator runs, no default is filled in, and the dictionary belongs to the instance from now on.
    """
    made = model.__new__(model)
    _set_values(made, fields)
    _set_given(made, _all_fields(model))
    _set_extra(made, None)
    _set_private(made, None)
    return made


def validated(model: type[M]) -> Callable[[dict[str, Any]], M]:
    """Return a function that builds validated instances of `model` from dictionaries. It raises `ValidationError`.

    Call this once before a loop.
    """
    return model.__pydantic_validator__.validate_python


def validated_json(model: type[M]) -> Callable[[bytes], M]:
    """Return a function that builds validated instances of `model` from JSON text, which is parsed and validated in one
    pass."""
    return model.__pydantic_validator__.validate_json


@lru_cache(maxsize=256)
def _all_fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)
