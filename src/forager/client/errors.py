"""Errors of the client. Each has the API's own message, code and reason.

ForagerError
└── ApiError             status, code, reason, fields, request_id, task_id
    ├── ApiNoAnswer      nothing answered at that address
    ├── ApiUnauthorized  401: no service key, or a wrong one
    ├── ApiForbidden     403
    ├── ApiNotFound      404
    ├── ApiConflict      409: it contradicts what is there
    ├── ApiInvalid       400, 413, 422: the request is not valid; `fields` names what
    ├── PageFailed       a page could not be read; `reason` is why (robots, timed_out …)
    ├── ApiUnavailable   429, 503: later; the client has tried again already
    └── ApiFault         any other 5xx
└── JobNotCompleted      `jobs.wait`: the job is paused, or ended otherwise; `job` is its report
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from forager.core.errors import Conflict, FieldError, ForagerError, NotFound, Rejected


class ApiError(ForagerError):
    """The API refused a request, or could not be reached."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "no_answer",
        reason: str | None = None,
        fields: Sequence[FieldError] = (),
        request_id: str | None = None,
        task_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.reason = reason
        self.fields = tuple(fields)
        self.request_id = request_id
        self.task_id = task_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        texts = [f"{each.field}: {each.message}" for each in self.fields]
        named = "; ".join(each for each in texts if each not in self.message)
        return f"{self.message} ({named})" if named else self.message


class ApiNoAnswer(ApiError):
    """Nothing answers at the address, or the connection broke."""


class ApiUnauthorized(ApiError):
    """The service key is missing or wrong."""


class ApiForbidden(ApiError):
    """The request is not allowed."""


class ApiNotFound(ApiError, NotFound):
    """There is no such job, record or route."""


class ApiConflict(ApiError, Conflict):
    """The request contradicts what is there, such as an idempotency key of another job."""


class ApiInvalid(ApiError, Rejected):
    """The request is not valid. `fields` names each wrong field."""


class PageFailed(ApiError):
    """A page could not be read. `reason` is the reason for programs; `task_id` identifies its task."""


class ApiUnavailable(ApiError):
    """Forager or its store is busy, stopping, or away. Retrying later may succeed."""


class ApiFault(ApiError):
    """Forager failed with an internal error. Its log has more under `request_id`."""


class JobNotCompleted(ForagerError):
    """A job that was waited for is paused, or has ended in another state than `completed`."""

    def __init__(self, job: Mapping[str, Any]) -> None:
        self.job = job
        state = str(job["state"]).replace("_", " ")
        why = f": {job['reason']}" if job.get("reason") else ""
        failed = f"; {job['failed']:,} of {job['total']:,} tasks failed" if job.get("failed") else ""
        super().__init__(f"Job {job['id']} is {state}{why}{failed}.")


class PackageMissing(ForagerError):
    """A package that is not installed is needed. The message has the command that installs it."""


_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: ApiInvalid,
    401: ApiUnauthorized,
    403: ApiForbidden,
    404: ApiNotFound,
    409: ApiConflict,
    413: ApiInvalid,
    422: ApiInvalid,
    429: ApiUnavailable,
    503: ApiUnavailable,
    507: ApiUnavailable,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes, where: str) -> ApiError:
    """Return the error of an answer. An answer that is not Forager's own comes from a proxy in between."""
    wait = headers.get("retry-after", "")
    retry_after = float(wait) if wait.isdigit() else None
    try:
        envelope = orjson.loads(body)
        meta: Mapping[str, Any] = envelope.get("meta") or {}
        message = str(envelope.get("error") or "no reason was given")
    except (ValueError, AttributeError):
        kind: type[ApiError] = ApiUnavailable if status in (502, 503, 504) else ApiFault
        excerpt = body[:200].decode("utf-8", "replace")
        foreign = f"{where} answered {status} with a body that is not from Forager: {excerpt!r}"
        return kind(foreign, status=status, code="foreign_answer", retry_after=retry_after)
    reason = meta.get("reason")
    kind = PageFailed if reason else _BY_STATUS.get(status, ApiFault if status >= 500 else ApiInvalid)
    return kind(
        message,
        status=status,
        code=str(meta.get("code") or "unknown"),
        reason=reason,
        fields=[FieldError(str(each["field"]), str(each["message"])) for each in meta.get("fields") or ()],
        request_id=meta.get("request_id"),
        task_id=meta.get("task_id"),
        retry_after=retry_after,
    )
