"""What both ledgers agree on when a job is created: how it is cut, how long a key is remembered, what is the same."""

import hashlib

import orjson

from forager.core.errors import Conflict
from forager.core.ledger import NewJob

CHUNK = 5_000
"""Tasks per transaction of a big job: short enough that leases and settlements pass between two of them."""
IN_ONE_GO = 20_000
PLANNING_LEASE_MS = 60_000
IDEMPOTENT_MS = 24 * 3600 * 1000
BEING_WRITTEN = 0.05
"""Seconds between two looks at the same job while another caller writes it."""


def fingerprint(job: NewJob) -> str:
    body = orjson.dumps([job.pipeline, job.params], option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(body).hexdigest()


def require_same(job: NewJob, used_for: str) -> None:
    if used_for != fingerprint(job):
        raise Conflict(
            f"Idempotency-Key {job.idempotency_key!r} was used for a job with other parameters in the last 24 hours. "
            "Send the same body, or a new key."
        )
