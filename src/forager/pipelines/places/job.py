"""The parameters of a places job, and the check against the ZIP reference data. Pure.

The class validates the shape; `check` validates against the reference data.
"""

import re
import unicodedata
from collections.abc import Sequence
from math import cos, radians
from typing import Annotated, ClassVar, NamedTuple, Self

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
MOST_KEYWORDS = 50
MOST_AREA = 200
CLOSEST, FARTHEST, USUAL_ZOOM = 21, 3, 14
"""Zoom of a map: one step more shows a quarter of the area."""
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


def _code(text: str) -> str:
    if not (len(text) == 2 and text.isascii() and text.isalpha()):
        raise ValueError("use two letters, such as de")
    return text


class Point(NamedTuple):
    """The middle of a map, and its zoom."""

    latitude: float
    longitude: float
    zoom: int

    def __str__(self) -> str:
        return f"{self.latitude:g},{self.longitude:g},{self.zoom}"

    @property
    def viewport(self) -> str:
        """Return it as the upstream writes it."""
        return f"@{self.latitude:g},{self.longitude:g},{self.zoom}z"

    def quarters(self) -> tuple["Point", ...]:
        """Return the four maps, one step closer, that cover the same area; none if there is no closer map."""
        if self.zoom >= CLOSEST:
            return ()
        # A map of two tiles in each direction is 720 / 2^zoom degrees wide; the middles of its quarters are a quarter
        # of that apart from its own. Degrees of latitude shrink towards the poles.
        across = 180 / 2**self.zoom
        up = across * cos(radians(self.latitude))
        return tuple(
            Point(
                round(max(-85.0, min(85.0, self.latitude + north * up)), 6),
                round((self.longitude + east * across + 180) % 360 - 180, 6),
                self.zoom + 1,
            )
            for north in (1, -1)
            for east in (-1, 1)
        )


_POINT = re.compile(r"\s*(-?\d{1,2}(?:\.\d+)?)\s*,\s*(-?\d{1,3}(?:\.\d+)?)\s*(?:,\s*(\d{1,2})z?\s*)?")


def point_of(area: str) -> Point | None:
    """Read `48.137,11.575` or, with a zoom, `48.137,11.575,15`; None for the name of a place. Raises `ValueError` for
    coordinates that are on no map."""
    match = _POINT.fullmatch(area)
    if match is None:
        return None
    point = Point(float(match[1]), float(match[2]), int(match[3] or USUAL_ZOOM))
    if abs(point.latitude) > 85 or abs(point.longitude) > 180 or not FARTHEST <= point.zoom <= CLOSEST:
        raise ValueError(
            f"{area[:40]!r} is on no map: use a latitude up to 85, a longitude up to 180 and a zoom of {FARTHEST} to"
            f" {CLOSEST}"
        )
    return point


def _area(text: object) -> object:
    """Return an area in canonical form: a name with its white space collapsed, or coordinates with a zoom."""
    if not isinstance(text, str):
        return text
    name = str(_collapsed(text))
    point = point_of(name)
    return name if point is None else str(point)


def _nameable(area: str) -> str:
    if "/" in area or not area:
        raise ValueError("an area is the name of a place, without /, or coordinates such as 48.137,11.575")
    return _printable(area)


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
"""One ZIP. A list of ZIPs is checked as a whole, so that one message names all invalid ones."""
Letters = Annotated[
    str,
    AfterValidator(str.strip),
    AfterValidator(str.lower),
    AfterValidator(_code),
    WithJsonSchema({"type": "string", "pattern": "^[a-z]{2}$"}),
]
Area = Annotated[
    str,
    Field(max_length=MOST_AREA),
    BeforeValidator(_area),
    AfterValidator(_nameable),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MOST_AREA, "examples": ["10115 Berlin"]}),
]
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
    """Business listings for keywords, in a state, in given ZIPs, or in areas of any country."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"keyword": "bars", "state": "AZ", "pages": 3, "max_credits": 1000},
                {"keyword": "coffee roasters", "zips": ["02139", "85001"], "dry_run": True},
                {"keyword": "bars", "more_keywords": ["pubs"], "areas": ["10115 Berlin", "Leipzig"], "country": "de"},
                {"keyword": "bars", "areas": ["48.137,11.575,15"], "country": "de", "language": "de"},
            ]
        },
    )

    keyword: Keyword
    more_keywords: Annotated[
        tuple[Keyword, ...],
        Field(max_length=MOST_KEYWORDS, description="Further terms for the same ZIPs or areas, in the same budget."),
    ] = ()
    state: State | None = None
    areas: Annotated[
        tuple[Area, ...] | None,
        Field(
            max_length=MAX_ZIPS,
            description="Instead of ZIPs, in any country: names of places, as people search for them (with a postal"
            " code if you like), or coordinates with a zoom of the map: latitude,longitude,zoom. Not both in one job.",
            examples=[["10115 Berlin", "Leipzig"]],
        ),
    ] = None
    country: Annotated[
        Letters | None, Field(description="With `areas`: country of the search, two letters.", examples=["de"])
    ] = None
    language: Annotated[
        Letters | None, Field(description="With `areas`: language of categories, two letters.", examples=["de"])
    ] = None
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

    @field_validator("areas", mode="after")
    @classmethod
    def _each_area_once(cls, areas: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if areas is None:
            return None
        once = tuple(dict.fromkeys(areas))
        if not once:
            raise ValueError("give at least one area, or leave `areas` out")
        if len({point_of(area) is None for area in once}) > 1:
            raise ValueError(
                "names and coordinates have different prices: give one kind, and the other to a second job"
            )
        return once

    @model_validator(mode="after")
    def _state_or_zips(self) -> Self:
        if len({self.keyword, *self.more_keywords}) < 1 + len(self.more_keywords):
            raise ValueError("a keyword is given twice; each is searched once")
        if self.areas is None and (self.country or self.language):
            raise ValueError("`country` and `language` belong to `areas`; ZIPs are in the United States")
        if self.areas is not None:
            if self.state is not None or self.zips is not None:
                raise ValueError("give `areas`, or `zips`, or a `state`: one of them names where to look")
        elif self.state is None and self.zips is None:
            raise ValueError("give `state` (such as AZ), `zips` (such as 85001) or `areas` (such as 10115 Berlin)")
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
    """Return the ZIPs or areas of a job in order. Each has a query for every page from `first_page` to `pages`."""
    if job.areas is not None:
        return job.areas
    if job.zips is not None:
        return job.zips
    return [known.zip for known in zips.of_state(job.state or "", po_boxes=job.po_boxes)]


def check(job: PlacesJob, zips: ZipTable) -> None:
    """Raise `Rejected`, with a remedy per field, if a state or ZIP is not in the reference data."""
    if job.areas is not None:
        return
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


# The tasks: one page of results for a keyword in a ZIP or an area, and one page of a map.


LANE = "serper"
EARLY_EXIT = "early_exit"
"""Reason of pages that are skipped because the one before was short."""


class Query(Task):
    """Carries the job's keyword and number of pages, because a step sees its task and nothing else."""

    kind: ClassVar[str] = "places.query"

    keyword: str
    zip: str
    """The ZIP; or the area, as the job names it."""
    page: int
    pages: int
    state: str | None = None
    further: bool = False
    """True if its keyword is one of the job's `more_keywords`."""
    country: str | None = None
    language: str | None = None

    def key(self) -> str:
        return self._key(self.page)

    def lane(self) -> str:
        return LANE

    @property
    def text(self) -> str:
        """The query text for the upstream (PL-3)."""
        return f"{self.zip} {self.keyword}"

    def previous(self) -> str | None:
        """Return the key of the previous page, which must be completed first."""
        return self._key(self.page - 1) if self.page > 1 else None

    def later_pages(self, because: str) -> tuple[Skip, ...]:
        """Return skips for the remaining pages of this ZIP. `because` is their error message."""
        return tuple(Skip(self._key(page), EARLY_EXIT, because) for page in range(self.page + 1, self.pages + 1))

    def _key(self, page: int) -> str:
        """Only a further keyword is in the key: reports read the job's own from the job."""
        return f"{self.zip}/{page}/{self.keyword}" if self.further else f"{self.zip}/{page}"


class AreaQuery(Query):
    """A page of a map. `zip` has its middle and its zoom (`Point`)."""

    kind: ClassVar[str] = "places.map_query"

    @property
    def text(self) -> str:
        return self.keyword
