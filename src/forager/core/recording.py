"""The ports of recording and replay: an answer is written down while a job works, and given back later without the
network. Nothing here does I/O.

A request is identified by the task that sent it and by its own content, never by its place in time: tasks run in
another order when they are replayed.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from forager.core.errors import ForagerError
from forager.core.http import Request, Response

MASK = "***"
_SECRET_NAME = re.compile(
    r"(?:.*[_.\-])?(?:key|apikey|token|password|passwd|pwd|secret|auth|authorization|signature|sig|session|sid)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RecordedTask:
    """The task that sends a request."""

    job: int
    kind: str
    key: str
    claim: int
    """Number of the attempt: the answers of the last one count."""

    @property
    def name(self) -> str:
        return f"{self.kind} {self.key}"


class Recorder(Protocol):
    """Writes every answer before the step that requested it continues. Never raises: a failed recording must
    not fail the job."""

    def takes(self, pipeline: str) -> bool:
        """Return whether jobs of this pipeline are recorded."""
        ...

    async def answered(self, task: RecordedTask, request: Request, response: Response) -> None: ...

    async def failed(self, task: RecordedTask, request: Request, error: ForagerError) -> None: ...


class Player(Protocol):
    """Answers requests from a recording. Raises what the recorded request raised, and `Permanent` for a request that
    was not recorded."""

    async def __call__(self, task: RecordedTask, request: Request) -> Response: ...


def public_url(url: str) -> str:
    """Return a URL without its user, its fragment and the values of parameters whose name means a secret."""
    parts = urlsplit(url)
    query = parts.query
    if any(_SECRET_NAME.fullmatch(name) for name, _ in parse_qsl(query, keep_blank_values=True)):
        given = parse_qsl(query, keep_blank_values=True)
        query = urlencode([(name, MASK if _SECRET_NAME.fullmatch(name) else value) for name, value in given], safe="*")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))


def request_digest(request: Request, *, with_host: bool = True) -> str:
    """Return what identifies a request within its task: method, URL, how it is rendered, and body. Without the host,
    the same call of an API that is somewhere else now."""
    render = "browser" if request.render == "browser" else "http"
    url = public_url(request.url)
    if not with_host:
        parts = urlsplit(url)
        url = urlunsplit(("", "", parts.path, parts.query, ""))
    head = f"{request.method.upper()} {render} {url}\n".encode()
    return hashlib.sha256(head + (request.body or b"")).hexdigest()[:32]
