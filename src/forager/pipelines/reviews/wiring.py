"""Builds the reviews pipeline from its settings."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import orjson

from forager.core.errors import FieldError, ForagerError, NotFound, Rejected
from forager.core.ledger import LogLine, Settlement, Submitted
from forager.core.pipeline import Lane, Pipeline
from forager.core.secret import Secret
from forager.core.states import TaskState
from forager.pipelines.reviews import pipeline
from forager.pipelines.reviews.pipeline import NAME
from forager.pipelines.reviews.recorded import FILES, RecordedGoogle, arranged
from forager.pipelines.reviews.settings import ReviewsSettings
from forager.pipelines.reviews.steps import TOKEN, GoogleBusinessProfile
from forager.pipelines.reviews.tasks import LANES, AccountsPage, LocationsPage, ReviewsPage
from forager.sdk.feature import Finding
from forager.sdk.reports import JobReport
from forager.sdk.service import Service
from forager.sdk.settings import SettingsTree

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
    """Return the lanes of the three APIs: with a bucket for every worker, or with one limit for all workers
    together."""
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
    """Return the token bucket's capacity and its requests per second. Raises `Rejected` for a name or number it cannot
    be."""
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


# The checks of `forager doctor` for the reviews pipeline. They change nothing, and never raise.


def checks(settings: SettingsTree) -> Iterator[Finding]:
    """Check the folder of recorded answers, if one is set. Google itself needs nothing before a job brings a token."""
    folder = settings.of(ReviewsSettings).google_mock_folder
    if folder is None:
        return
    try:
        google = recorded_in(folder)
        yield Finding("google", "note", f"answers are read from {folder}; accounts: {len(google.listed)}")
    except ForagerError as error:
        yield Finding("google", "problem", error.message, "Correct the file, or unset FORAGER_GOOGLE_MOCK_FOLDER.")


# Shared by the routes of reviews: a job for a token, and a job of this pipeline by its id.


async def submit_token(
    service: Service, token: Secret | None, *, key: str | None = None, until_end: bool = False, login: str | None = None
) -> Submitted:
    """Create a job for this token, or for a stored login. Raises `Busy` if too many jobs wait for their first
    request."""
    if token is None:
        return await service.submit(NAME, {"login": login}, key=key, until_end=until_end)
    return await service.submit(NAME, {}, key=key, until_end=until_end, secrets={TOKEN: token})


async def review_job(service: Service, job_id: UUID) -> JobReport:
    """Raises `NotFound` if there is no such job, or if it belongs to another pipeline."""
    job = await service.reports.job(job_id)
    if job.pipeline != NAME:
        raise NotFound(f"There is no reviews job {job_id}.")
    return job


# One log line, with its whole context, for every page that failed permanently.


STAGES = {AccountsPage.kind: "accounts", LocationsPage.kind: "locations", ReviewsPage.kind: "reviews"}
LONGEST_ERROR = 500


def failure_line(settlement: Settlement) -> LogLine | None:
    """Return the line about a page that failed permanently; None for any other end."""
    lease = settlement.lease
    if settlement.state is not TaskState.FAILED or lease.kind not in STAGES:
        return None
    task = lease.task
    context = {
        "stage": STAGES[lease.kind],
        "account_id": getattr(task, "account_id", None),
        "location_id": getattr(task, "location_id", None),
        "page": getattr(task, "page", None),
        "attempt": lease.attempt,
        "reason": settlement.reason,
        "error_type": settlement.error_type,
        "api_status": (settlement.facts or {}).get("api_status"),
        "error": (settlement.error or "")[:LONGEST_ERROR],
    }
    return LogLine("error", "task_failed", context)
