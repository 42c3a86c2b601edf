"""Raw fields to a valid result: every field is cleaned by the rule of its annotation, a bad one is dropped, the rest
stays.

An output model names its kinds: `job_title: Line | None`, `contact_phone: Phone | None`. A plain `str` is a `Line`.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import BaseModel, StringConstraints, ValidationError

from forager.extract.text.contacts import clean_email, e164
from forager.extract.text.locations import NormalizedLocation, location_of, location_of_address
from forager.extract.text.strings import one_line, paragraphs
from forager.extract.text.urls import clean_url

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class As:
    """Turns the text of a field into its value; ValueError drops the field, with its message as the reason."""

    clean: Callable[[str], Any]


Line = Annotated[str, As(one_line), StringConstraints(min_length=1)]
Prose = Annotated[str, As(paragraphs), StringConstraints(min_length=1)]
Url = Annotated[str, As(clean_url), StringConstraints(pattern=r"^https://[^\s]+$")]
Email = Annotated[str, As(clean_email), StringConstraints(pattern=r"^[^\s@]+@[^\s@]+$")]
Phone = Annotated[str, As(e164), StringConstraints(pattern=r"^\+[1-9][0-9]{3,14}$")]
Location = Annotated[NormalizedLocation, As(location_of)]


@dataclass(frozen=True, slots=True)
class Normalised(Generic[M]):
    result: M
    dropped: Mapping[str, str]
    """Fields whose value could not be used, each with the reason."""


def normalise(output: type[M], raw: Mapping[str, object], *, clean: Container[str] = ()) -> Normalised[M]:
    """Clean the fields of an output, but those in `clean`. Other names are ignored, a missing field is null, and no
    input makes it fail."""
    kept: dict[str, Any] = {}
    dropped: dict[str, str] = {}
    for name in output.model_fields:
        value = raw.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            cleaned = value if name in clean else _cleaned(output, name, value)
            output.model_validate({name: cleaned})
        except ValidationError as error:
            dropped[name] = error.errors(include_url=False, include_input=False)[0]["msg"]
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            dropped[name] = str(error)
        else:
            kept[name] = cleaned
    return Normalised(output.model_validate(kept), dropped)


Cleaners = Mapping[str, Callable[[str], str]]
LONG = 2_000
"""Characters of a text from which a reader cleans it: 1 MB of entities or tags take a tenth of a second."""


@lru_cache(maxsize=256)
def cleaners_of(output: type[BaseModel]) -> Cleaners:
    """Return what cleans the fields of text of an output, by name: functions that a reader can import."""
    found = {name: _clean_of(output, name) for name in output.model_fields}
    return {name: clean for name, clean in found.items() if clean in (one_line, paragraphs)}


def _cleaned(output: type[BaseModel], name: str, value: object) -> Any:
    if isinstance(value, str):
        clean = _clean_of(output, name)
        return clean(value) if clean else value
    if isinstance(value, Mapping) and not isinstance(value, BaseModel) and _clean_of(output, name) is location_of:
        return location_of_address(value)
    return value


@lru_cache(maxsize=1_000)
def _clean_of(output: type[BaseModel], name: str) -> Callable[[str], Any] | None:
    """Return how text of a field becomes its value. Looked up once: the annotations of a class stay as they are."""
    field = output.model_fields[name]
    marks = (*field.metadata, *_metadata(field.annotation))
    plain = one_line if _takes_text(field.annotation) else None
    return next((mark.clean for mark in marks if isinstance(mark, As)), plain)


def _metadata(annotation: Any) -> tuple[Any, ...]:
    """Return the marks of `Line | None`, which stand on the inner type."""
    metadata: list[Any] = list(getattr(annotation, "__metadata__", ()))
    for inner in get_args(annotation):
        metadata += getattr(inner, "__metadata__", ())
    return tuple(metadata)


def _takes_text(annotation: Any) -> bool:
    return annotation is str or str in get_args(annotation)
