"""The records of the places pipeline: a place, unique in the world, and a sighting, unique per job.

A sighting is a row of the view `serper_places`. Its columns `ingest_id`, `job_id` and `ingest_ts` are not fields here:
a step has neither its job nor the time of the commit. The ledger's row has an id, its job and its time, and the view
gives them these names.
"""

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from forager.core.record import Index, Record

SOURCE = "serper_places"
SOURCE_VERSION = "v1"


class Place(Record):
    """A business. A field that is missing in an answer is None, and overwrites nothing."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "place_uid": "ChIJN1t_tDeuEmsRUsoyG83frY4",
                    "title": "The Copper Still",
                    "address": "12 E Adams St, Phoenix, AZ 85004",
                    "phone": "(602) 555-0142",
                    "website": "https://copperstill.example",
                    "rating": 4.6,
                    "rating_count": 812,
                    "category": "Bar",
                    "latitude": 33.4484,
                    "longitude": -112.074,
                    "cid": "9523048712390481237",
                    "place_id": "ChIJN1t_tDeuEmsRUsoyG83frY4",
                }
            ]
        }
    )

    kind: ClassVar[str] = "place"
    table: ClassVar[str] = "places"
    key_field: ClassVar[str] = "place_uid"
    identity: ClassVar[str | None] = "place"
    # Lists are sorted by discovery: an index that ends with `id` serves a filter and the order at once.
    indexes: ClassVar[tuple[Index, ...]] = (Index(("category", "id")),)

    place_uid: str
    title: str | None = None
    address: str | None = None
    phone: str | None = None
    website: str | None = None
    rating: float | None = None
    rating_count: int | None = None
    category: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    cid: str | None = None
    place_id: str | None = None

    def other_keys(self) -> tuple[str, ...]:
        """A cid next to a placeId names the same place: answers with only the cid must find it."""
        return (self.cid,) if self.place_id is not None and self.cid is not None else ()


class Sighting(Record):
    """One place as one query of one job saw it. The first in a job wins."""

    kind: ClassVar[str] = "sighting"
    table: ClassVar[str] = "sightings"
    key_field: ClassVar[str] = "place_uid"
    scope: ClassVar[Literal["world", "job"]] = "job"
    identity: ClassVar[str | None] = "place"
    # Few indexes, because ten sightings are written per query: this one finds the places of a ZIP. The key contains
    # where a place was seen.
    indexes: ClassVar[tuple[Index, ...]] = (Index(("zip", "place_uid")),)

    source: str = SOURCE
    source_version: str = SOURCE_VERSION
    keyword: str
    state: str | None = None
    zip: str
    page: int
    position: int | None = None
    place_uid: str
    payload: dict[str, Any]
    api_status: int
    api_ms: int
    results_count: int
    credits: int | None = None
    error: str | None = None
