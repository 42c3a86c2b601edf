"""Google Business Profile reviews: accounts, their locations, their reviews. The pipeline as a value."""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictStr

from forager.core.errors import Retry
from forager.core.pipeline import JobLimits, JobSecret, Lane, LaneScope, Pipeline, step
from forager.core.states import TaskState
from forager.core.task import Plan
from forager.pipelines.reviews.recorded import RecordedGoogle
from forager.pipelines.reviews.records import Account, Location, Review
from forager.pipelines.reviews.steps import REASONS, TOKEN, GoogleBusinessProfile
from forager.pipelines.reviews.tasks import LANES, QUEUES, AccountsPage, LocationsPage, ReviewsPage

# A request for the reviews that one access token can read. The token itself is a secret of the job.


_LOGIN_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,39}")


def checked_login(name: str) -> str:
    """Raise `ValueError` unless this can be the name of a login."""
    if not _LOGIN_NAME.fullmatch(name):
        raise ValueError("is made of up to 40 small letters, digits, `-` and `_`, a letter or digit first")
    return name


LoginName = Annotated[str, AfterValidator(checked_login)]
LONGEST_TOKEN = 4 * 1024
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


def checked_token(text: str) -> str:
    """Raise `ValueError` unless this can be an access token. The message never repeats it."""
    if not text.strip():
        raise ValueError("is blank; give the OAuth access token")
    if len(text) > LONGEST_TOKEN:
        raise ValueError(f"is longer than {LONGEST_TOKEN:,} characters; give the access token alone")
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("contains white space, control or non-ASCII characters; give the access token alone")
    return text


AccessToken = Annotated[StrictStr, AfterValidator(checked_token)]


class ReviewsJob(BaseModel):
    """Accounts, locations and reviews of one Google Business Profile access token, or of a stored Google login.

    A token is not a parameter: it is submitted with them, sealed while the job lives, and deleted when it ends.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    login: LoginName | None = Field(
        default=None,
        description="Name of a Google login (`forager reviews login`), in place of an access token.",
    )


NAME = "reviews"
RETRY = Retry(delays=(0.1, 0.2, 0.4))
PATIENCE = 3_600.0
"""Seconds that a task waits for quota before it fails."""
MOST_WAITING_JOBS = 10_000
ACCESS_TOKEN = JobSecret(
    TOKEN,
    submit="POST /api/v1/review-fetch",
    retry="forager reviews retry {job_id} --token-file FILE, or POST /api/v1/review-fetch/{job_id}/retry",
)


def google_lane(
    name: str, *, rate: float = 100, per: float = 10, burst: int = 100, scope: LaneScope = "worker"
) -> Lane:
    """RV-5's bucket: `burst` at once, `rate / per` a second over time, never more than the seed's bucket. Every worker
    has its own, unless the scope is `all`."""
    return Lane(name, rate=rate, per=per, burst=burst, concurrency=200, retry=RETRY, queue=QUEUES[name], scope=scope)


def plan(_: ReviewsJob) -> Iterator[Plan]:
    """Yield the first page of accounts; everything else follows from what Google answers."""
    yield Plan(AccountsPage())


def build(
    google: GoogleBusinessProfile | RecordedGoogle | None = None,
    *,
    lanes: Sequence[Lane] | None = None,
    most_waiting_jobs: int = MOST_WAITING_JOBS,
) -> Pipeline:
    """Return the pipeline for this upstream and these lanes; a job beyond `most_waiting_jobs` is refused as `Busy`."""
    google = google or GoogleBusinessProfile()
    timeout = google.timeout + 30.0  # beyond the request's own time-out
    return Pipeline(
        name=NAME,
        params=ReviewsJob,
        plan=plan,
        steps=(
            step(AccountsPage, google.accounts, timeout=timeout, patience=PATIENCE),
            step(LocationsPage, google.locations, timeout=timeout, patience=PATIENCE),
            step(ReviewsPage, google.reviews, timeout=timeout, patience=PATIENCE),
        ),
        records=(Account, Location, Review),
        lanes=tuple(lanes or map(google_lane, LANES)),
        reasons=REASONS,
        logged_states=frozenset({TaskState.FAILED}),
        needs_secrets=lambda job: job.login is None,
        secrets=() if isinstance(google, RecordedGoogle) else (ACCESS_TOKEN,),  # a folder needs no token
        limits=lambda _: JobLimits(most_waiting_jobs=most_waiting_jobs),
    )
