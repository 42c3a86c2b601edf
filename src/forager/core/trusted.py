"""Building models without validating them again, for the few places where that is the hottest line of the program.

Everything else builds models the ordinary way: `Place(title=…)`. Use these two only for values that were checked a
moment before, and hold a test against them that compares the result with a validated one.
"""

from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel

M = TypeVar("M", bound=BaseModel)

# A model lets nobody set its slots by name: these are the slots themselves, which is what unpickling sets too.
_set_values, _set_given, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


def trusted(model: type[M], fields: dict[str, Any]) -> M:
    """An instance of `model` that takes over `fields` as they are: all of its fields, already of their types.

    No validator runs, no default is filled in, and the dictionary belongs to the instance from now on.
    """
    made = model.__new__(model)
    _set_values(made, fields)
    _set_given(made, _all_fields(model))
    _set_extra(made, None)
    _set_private(made, None)
    return made


@lru_cache(maxsize=256)
def _all_fields(model: type[BaseModel]) -> set[str]:
    return set(model.model_fields)
