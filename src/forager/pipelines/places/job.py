"""The parameters of a places job, and the check against the ZIP reference data. Pure.

The class validates the shape; `check` validates against the reference data.
"""

import unicodedata
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)

from forager.core.errors import FieldError, Rejected
from forager.core.outcome import Skip
from forager.core.task import Task
from forager.pipelines.places.zips import ZipTable, is_zip

MAX_ZIPS = 50_000
_NAMED = 5  # how many wrong values a message names before it only counts them


def _collapsed(value: object) -> object:
    """Return a keyword in canonical form: trimmed, white space collapsed, characters composed."""
    return unicodedata.normalize("NFC", " ".join(value.split())) if isinstance(value, str) else value


def _printable(keyword: str) -> str:
    if not keyword:
        raise ValueError("is empty; give a search term, such as bars")
    # Cs: half a surrogate pair, which JSON can smuggle in and no encoding can send on.
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in keyword):
        raise ValueError("must not contain control characters or broken text; remove them")
    return keyword


def _upper(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _two_letters(state: str) -> str:
    if not (len(state) == 2 and state.isascii() and state.isalpha()):
        raise ValueError("a state is two letters, such as AZ")
    return state


def _five_digits(text: str) -> str:
    if not is_zip(text):
        raise ValueError(f"a ZIP is five digits, leading zeros included; correct {_named([text])}")
    return text


Keyword = Annotated[
    str,
    Field(max_length=200),
    BeforeValidator(_collapsed),
    AfterValidator(_printable),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": 200,
            "description": "Search term for every ZIP.",
            "examples": ["bars"],
        }
    ),
]
State = Annotated[
    str,
    BeforeValidator(_upper),
    AfterValidator(_two_letters),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": "^[A-Z]{2}$",
            "description": "Two letters; every standard ZIP of this state is queried. Give this or `zips`.",
            "examples": ["AZ"],
        }
    ),
]
ZipCode = Annotated[
    str,
    AfterValidator(str.strip),
    AfterValidator(_five_digits),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{5}$", "examples": ["85001"]}),
]
"""One. A list of them is checked as a whole, so that a message names several."""
ZipText = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9]{5}$", "examples": ["85001"]})]
PageCount = Annotated[
    int, Field(strict=True, ge=1, le=10, description="Maximum pages of 10 results per ZIP.", examples=[3])
]
BatchSize = Annotated[
    int, Field(strict=True, ge=1, le=10_000, description="Maximum queries that a worker leases at once.")
]
Concurrency = Annotated[
    int,
    Field(strict=True, ge=1, le=1_000, description="Maximum requests in flight; default: the lane's limit."),
]
Credits = Annotated[
    int,
    Field(strict=True, ge=0, le=1_000_000_000, description="Never spend more than this; the rest is skipped."),
]


class PlacesJob(BaseModel):
    """Business listings for a keyword, in a state or in given ZIPs."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"keyword": "bars", "state": "AZ", "pages": 3, "max_credits": 1000},
                {"keyword": "coffee roasters", "zips": ["02139", "85001"], "dry_run": True},
            ]
        },
    )

    keyword: Keyword
    state: State | None = None
    zips: Annotated[
        tuple[ZipText, ...] | None,
        Field(
            max_length=MAX_ZIPS,
            description="Exactly these ZIPs, of any type and in this order, instead of a state.",
            examples=[["02139", "85001"]],
        ),
    ] = None
    pages: PageCount = 3
    first_page: Annotated[
        int,
        Field(
            strict=True,
            ge=1,
            le=10,
            description="First page per ZIP: above 1 for a second pass over ZIPs that were cut off.",
        ),
    ] = 1
    batch_size: BatchSize = 100
    concurrency: Concurrency | None = None
    dry_run: Annotated[StrictBool, Field(description="Store the price of the job and send nothing.")] = False
    max_credits: Credits | None = None
    po_boxes: Annotated[
        StrictBool, Field(description="With `state`: also PO boxes, and ZIPs of one organisation or of the military.")
    ] = False

    @field_validator("zips", mode="after")
    @classmethod
    def _five_digits_each_once(cls, zips: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if zips is None:
            return None
        trimmed = tuple(dict.fromkeys(text.strip() for text in zips))
        wrong = [text for text in trimmed if not is_zip(text)]
        if wrong:
            raise ValueError(f"a ZIP is five digits, leading zeros included; correct {_named(wrong)}")
        if not trimmed:
            raise ValueError("give at least one ZIP, or leave `zips` out and give a `state`")
        return trimmed

    @model_validator(mode="after")
    def _state_or_zips(self) -> Self:
        if self.state is None and self.zips is None:
            raise ValueError("give `state` (such as AZ) or `zips` (such as 85001)")
        if self.first_page > self.pages:
            raise ValueError(f"`first_page` is {self.first_page}, above the last page; set `pages` to it or higher")
        if self.state is not None and self.zips is not None:
            raise ValueError("give either `state` or `zips`, not both: `zips` alone names the area")
        return self


class PlacesDefaults(BaseModel):
    """The defaults that an operator may set (`DEFAULT_PAGES`, `DEFAULT_BATCH_SIZE`), under the job's own bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pages: PageCount = 3
    batch_size: BatchSize = 100


def places_params(defaults: PlacesDefaults) -> type[PlacesJob]:
    """Return the job class with these defaults, so that the API's documentation and the commands show the real ones."""
    return create_model(
        "PlacesJob",
        __base__=PlacesJob,
        __doc__=PlacesJob.__doc__,
        pages=(PageCount, defaults.pages),
        batch_size=(BatchSize, defaults.batch_size),
    )


def zip_codes(job: PlacesJob, zips: ZipTable) -> Sequence[str]:
    """Return the ZIPs of a job in order. Each has a query for every page from `first_page` to `pages`."""
    if job.zips is not None:
        return job.zips
    return [known.zip for known in zips.of_state(job.state or "", po_boxes=job.po_boxes)]


def check(job: PlacesJob, zips: ZipTable) -> None:
    """Raise `Rejected`, with a remedy per field, if a state or ZIP is not in the reference data."""
    wrong = _wrong_zips(job.zips, zips) if job.zips is not None else _wrong_state(job, zips)
    if wrong is not None:
        raise Rejected(f"{wrong.field}: {wrong.message}", fields=[wrong])


def _wrong_zips(asked: Sequence[str], zips: ZipTable) -> FieldError | None:
    unknown = [text for text in asked if zips.get(text) is None]
    if not unknown:
        return None
    return FieldError("zips", f"not in the ZIP reference data: {_named(unknown)}; remove or correct them")


def _wrong_state(job: PlacesJob, zips: ZipTable) -> FieldError | None:
    state = job.state or ""
    if state not in zips.states:
        near = _near(state, zips.states)
        hint = f"did you mean {' or '.join(near)}?" if near else f"use one of {', '.join(zips.states)}"
        return FieldError("state", f"{state} is not a state of the ZIP reference data; {hint}")
    if not zip_codes(job, zips):
        remedy = "its ZIPs are no longer active" if job.po_boxes else "set po_boxes to include its other ZIPs"
        return FieldError("state", f"{state} has no standard ZIP in the reference data; {remedy}")
    return None


def _near(state: str, states: Sequence[str]) -> list[str]:
    """Return likely corrections of a state: the letters swapped, else the same first letter."""
    return [known for known in states if known == state[::-1]] or [known for known in states if known[0] == state[0]]


def _named(values: Sequence[str]) -> str:
    """Format the first few values, truncated, and how many more there are."""
    few = ", ".join(repr(value[:20]) for value in values[:_NAMED])
    more = len(values) - _NAMED
    return f"{few} and {more} more" if more > 0 else few


# The one kind of task that places has: one page of results for a keyword in a ZIP.


LANE = "serper"
EARLY_EXIT = "early_exit"
"""Reason of pages that are skipped because the one before was short."""


class Query(Task):
    """Carries the job's keyword and number of pages, because a step sees its task and nothing else."""

    kind: ClassVar[str] = "places.query"

    keyword: str
    zip: str
    page: int
    pages: int
    state: str | None = None

    def key(self) -> str:
        return f"{self.zip}/{self.page}"

    def lane(self) -> str:
        return LANE

    @property
    def text(self) -> str:
        """The query text for the upstream (PL-3)."""
        return f"{self.zip} {self.keyword}"

    def previous(self) -> str | None:
        """Return the key of the previous page, which must be completed first."""
        return f"{self.zip}/{self.page - 1}" if self.page > 1 else None

    def later_pages(self, because: str) -> tuple[Skip, ...]:
        """Return skips for the remaining pages of this ZIP. `because` is their error message."""
        return tuple(Skip(f"{self.zip}/{page}", EARLY_EXIT, because) for page in range(self.page + 1, self.pages + 1))
