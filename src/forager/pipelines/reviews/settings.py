"""The settings of the reviews pipeline: Google's hosts, its rates, and the queue of jobs."""

from collections.abc import Mapping
from functools import partial

from forager.sdk.settings import FeatureSettings, Location, WebUrl, setting

_google = partial(setting, group="Google Business Profile")


class ReviewsSettings(FeatureSettings):
    google_accounts_url: WebUrl = _google(
        "https://mybusinessaccountmanagement.googleapis.com", "Base URL of the API that lists accounts."
    )
    google_locations_url: WebUrl = _google(
        "https://mybusinessbusinessinformation.googleapis.com", "Base URL of the API that lists locations."
    )
    google_reviews_url: WebUrl = _google("https://mybusiness.googleapis.com", "Base URL of the API that lists reviews.")
    google_oauth_url: WebUrl = _google("https://oauth2.googleapis.com", "Base URL of the token endpoint, for logins.")
    google_consent_url: WebUrl = _google(
        "https://accounts.google.com/o/oauth2/v2/auth", "Page on which a user allows a login (`forager reviews login`)."
    )
    google_mock_folder: Location | None = _google(
        None,
        "Folder with accounts.json, locations.json and Reviews.json that is read instead of asking Google; any token.",
    )
    google_requests_per_second: float | None = _google(
        None,
        "Maximum requests per second of each worker to each of the three APIs, over time (10).",
        seed="GOOGLE_REQUESTS_PER_SECOND",
        gt=0,
        le=10_000,
    )
    google_shared_requests_per_minute: int | None = _google(
        None,
        "Maximum requests per minute to each API by all workers together (Google's quota: 300); unset: a bucket each.",
        ge=1,
        le=1_000_000,
    )
    ratelimit: Mapping[str, str] = _google(
        {},
        "Each worker's bucket: RATELIMIT_CAPACITY (100 requests at once), RATELIMIT_REFILL_RATE (requests per second).",
        seed="RATELIMIT_*",
    )
    google_timeout_seconds: float = _google(30.0, "Time limit for an answer.", gt=0, le=600)
    max_waiting_review_jobs: int = _google(
        10_000, "Maximum jobs that wait for their first request; one more is refused with 429.", ge=1, le=10_000_000
    )
