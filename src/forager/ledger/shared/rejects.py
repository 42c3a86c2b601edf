"""Rows that failed validation, on their way into the table `rejected`. Whatever they hold, they must never be the
reason why a settlement fails."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from forager.core.ledger import Settlement
from forager.ledger.shared.text import clean, clean_or_none, lenient_json

MOST_PAYLOAD = 64 * 1024
"""Characters of JSON. Of a longer payload the beginning is kept, as text."""


class RejectedRow(NamedTuple):
    job_id: int
    task_id: int
    kind: str
    key: str | None
    reason: str
    payload: str


def rejected_rows(settlements: Iterable[Settlement]) -> list[RejectedRow]:
    return [
        RejectedRow(
            s.lease.job_id,
            s.lease.task_id,
            reject.record.kind,
            clean_or_none(reject.key),
            clean(reject.reason),
            _payload(reject.payload),
        )
        for s in settlements
        if s.extras is not None
        for reject in s.extras.rejected
    ]


def _payload(value: Any) -> str:
    written = lenient_json(value)
    return written if len(written) <= MOST_PAYLOAD else lenient_json({"truncated": written[:MOST_PAYLOAD]})
