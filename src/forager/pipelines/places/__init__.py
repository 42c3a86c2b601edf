"""Business listings by keyword and ZIP code, through the Serper places API. Start reading at `pipeline.py`."""

from forager.pipelines.places.estimate import Density, Pages, PlacesPlan, Terms, estimate
from forager.pipelines.places.job import (
    Keyword,
    PlacesDefaults,
    PlacesJob,
    State,
    ZipCode,
    check,
    places_params,
    zip_codes,
)
from forager.pipelines.places.pipeline import SERPER_LANE, build, places, plan
from forager.pipelines.places.query import Query
from forager.pipelines.places.records import Place, Sighting
from forager.pipelines.places.steps import Serper
from forager.pipelines.places.zips import Zip, ZipTable, shipped_zips

__all__ = [
    "SERPER_LANE",
    "Density",
    "Keyword",
    "Pages",
    "Place",
    "PlacesDefaults",
    "PlacesJob",
    "PlacesPlan",
    "Query",
    "Serper",
    "Sighting",
    "State",
    "Terms",
    "Zip",
    "ZipCode",
    "ZipTable",
    "build",
    "check",
    "estimate",
    "places",
    "places_params",
    "plan",
    "shipped_zips",
    "zip_codes",
]
