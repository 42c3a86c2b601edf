"""How the reviews pipeline is built from its settings."""

from pathlib import Path

import orjson

from forager.core.errors import FieldError, Rejected
from forager.core.pipeline import Lane, Pipeline
from forager.kit.settings import SettingsTree
from forager.pipelines.reviews import pipeline
from forager.pipelines.reviews.recorded import FILES, RecordedGoogle, arranged
from forager.pipelines.reviews.settings import ReviewsSettings
from forager.pipelines.reviews.steps import GoogleBusinessProfile
from forager.pipelines.reviews.tasks import LANES

BUCKET = {
    "CAPACITY": "capacity",
    "BURST": "capacity",
    "TOKEN_BUCKET_CAPACITY": "capacity",
    "REFILL_RATE": "rate",
    "TOKENS_PER_SECOND": "rate",
}
MOST = 100_000


def build(settings: SettingsTree) -> Pipeline:
    own = settings.of(ReviewsSettings)
    google = _google(own) if own.google_mock_folder is None else recorded_in(own.google_mock_folder)
    return pipeline.build(google, lanes=_lanes(own), most_waiting_jobs=own.max_waiting_review_jobs)


def _lanes(own: ReviewsSettings) -> list[Lane]:
    """The lanes of the three APIs: with a bucket for every worker, or with one limit for all workers together."""
    capacity, rate = bucket(own)
    together = own.google_shared_requests_per_minute
    if together is not None:
        burst = min(capacity, together)
        return [pipeline.google_lane(name, rate=together, per=60.0, burst=burst, scope="all") for name in LANES]
    # A window as long as the bucket takes to fill: `capacity` at once, `rate` over time, never more than the bucket.
    return [pipeline.google_lane(name, rate=capacity, per=capacity / rate, burst=capacity) for name in LANES]


def _google(own: ReviewsSettings) -> GoogleBusinessProfile:
    return GoogleBusinessProfile(
        accounts_url=own.google_accounts_url,
        locations_url=own.google_locations_url,
        reviews_url=own.google_reviews_url,
        timeout=own.google_timeout_seconds,
    )


def recorded_in(folder: Path) -> RecordedGoogle:
    """Read the three files of a folder. Raises `Rejected` if one is missing or cannot be used."""
    files = {}
    for name in FILES:
        try:
            files[name] = orjson.loads((folder / name).read_bytes())
        except OSError as error:
            raise Rejected(f"FORAGER_GOOGLE_MOCK_FOLDER: {folder / name} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise Rejected(f"FORAGER_GOOGLE_MOCK_FOLDER: {folder / name} is not JSON: {error}.") from error
    return arranged(files)


def bucket(own: ReviewsSettings) -> tuple[int, float]:
    """The token bucket's capacity and its requests per second. Raises `Rejected` for a name or number it cannot be."""
    given: dict[str, float] = {"capacity": 100.0, "rate": own.google_requests_per_second or 10.0}
    for name, text in own.ratelimit.items():
        meaning = BUCKET.get(name.upper())
        if meaning is None:
            raise _wrong(name, f"is not known; use one of RATELIMIT_{', RATELIMIT_'.join(BUCKET)}")
        try:
            value = float(text)
        except ValueError:
            raise _wrong(name, "is not a number") from None
        if not 0 < value <= MOST or (meaning == "capacity" and value < 1):
            raise _wrong(name, f"must be greater than 0 and at most {MOST:,}")
        if meaning == "capacity" or own.google_requests_per_second is None:
            given[meaning] = value
    return int(given["capacity"]), given["rate"]


def _wrong(name: str, message: str) -> Rejected:
    return Rejected(f"RATELIMIT_{name} {message}.", fields=[FieldError(f"RATELIMIT_{name}", message)])
