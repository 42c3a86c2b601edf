"""The settings of the places pipeline: its upstream, and the defaults of its jobs."""

from functools import partial

from forager.sdk.serper import SerperSettings
from forager.sdk.settings import TableOrFile, setting

_places = partial(setting, group="Places")


class PlacesSettings(SerperSettings):
    default_batch_size: int = _places(
        100, "Maximum queries of a job that a worker leases at once.", seed="DEFAULT_BATCH_SIZE", ge=1, le=10_000
    )
    default_pages: int = _places(3, "Maximum pages of 10 results per ZIP.", seed="DEFAULT_PAGES", ge=1, le=10)
    max_retries_per_query: int = _places(
        3, "Retries of a query after 5xx, time-out or connection error.", seed="MAX_RETRIES_PER_QUERY", ge=0, le=100
    )
    retry_delay_seconds: float = _places(
        5.0, "Wait before the first retry; doubles with each.", seed="RETRY_DELAY_SECONDS", ge=0, le=86_400
    )
    serper_map_credits: int = _places(
        3, "Credits of one page of a map, for areas by coordinates: Serper's price is not documented.", ge=1, le=100
    )
    zip_table: TableOrFile | None = _places(
        None, "CSV with the columns zip and state, or bigquery:DATASET.TABLE (default: the included table)."
    )
