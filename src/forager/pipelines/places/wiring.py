"""Builds the places pipeline from its settings, and provides its secret and its reference data."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pydantic import SecretStr

from forager.core.pipeline import Pipeline, Retry
from forager.kit.references import FromTable
from forager.kit.settings import SettingsTree
from forager.pipelines.places import pipeline
from forager.pipelines.places.job import PlacesDefaults, places_params
from forager.pipelines.places.settings import PlacesSettings
from forager.pipelines.places.steps import API_KEY, Serper
from forager.pipelines.places.zips import Zip, ZipTable, shipped_zips


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(PlacesSettings)
    lane = replace(
        pipeline.SERPER_LANE,
        rate=own.serper_rate,
        burst=own.serper_burst,
        concurrency=own.serper_concurrency,
        retry=Retry(own.max_retries_per_query, first=own.retry_delay_seconds),
        cap_hour=own.serper_max_credits_hour,
        cap_day=own.serper_max_credits_day,
        cap_month=own.serper_max_credits_month,
    )
    serper = Serper(base_url=own.serper_base_url, timeout=own.serper_timeout_seconds)
    defaults = PlacesDefaults(pages=own.default_pages, batch_size=own.default_batch_size)
    return pipeline.build(serper, lane=lane, params=places_params(defaults))


def secrets(settings: SettingsTree) -> Mapping[str, SecretStr | None]:
    return {API_KEY: settings.of(PlacesSettings).serper_api_key}


def references(settings: SettingsTree) -> Mapping[str, Callable[[], ZipTable] | FromTable]:
    """`zips`: the operator's own table, in a file or in a warehouse, or else the one that ships."""
    table = settings.of(PlacesSettings).zip_table
    if isinstance(table, str):
        return {"zips": FromTable(table, Zip._fields, lambda rows: ZipTable.from_rows(rows, name=table))}
    return {"zips": shipped_zips if table is None else lambda: ZipTable.from_csv(table)}
