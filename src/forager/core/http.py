"""Requests and responses as values, and `Fetch`, the one capability that a step has.

A request says what to send, never how: guarding, pacing, proxying and secrets are the fetcher's. Nothing here does I/O.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import orjson

from forager.core.errors import Evidence, Permanent


@dataclass(frozen=True, slots=True)
class SecretRef:
    """Names a secret and the header it goes into; the value is filled in at the moment of sending."""

    name: str
    header: str = "Authorization"
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    auth: SecretRef | None = None
    timeout: float = 30.0
    max_bytes: int = 32 * 1024 * 1024
    max_redirects: int = 5
    on_leave: Callable[[], None] | None = None
    """Called when the request leaves us, for each hop: a lane counts by that, not by when it was asked for."""

    @classmethod
    def post_json(cls, url: str, value: Any, *, auth: SecretRef | None = None, timeout: float = 30.0) -> "Request":
        headers = {"Content-Type": "application/json"}
        return cls(url=url, method="POST", headers=headers, body=orjson.dumps(value), auth=auth, timeout=timeout)


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whole. It carries its time, because a step has no clock of its own."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    at: datetime
    elapsed_ms: int

    def json(self) -> Any:
        """The decoded body; nonsense is permanent, with the body kept as evidence."""
        try:
            return orjson.loads(self.body)
        except ValueError as error:
            where = self.url.partition("?")[0]  # a query may hold a key
            raise Permanent(f"{where} answered with malformed JSON: {error}", evidence=self.evidence()) from error

    def evidence(self) -> Evidence:
        return Evidence(self.body, self.headers.get("Content-Type", "application/octet-stream"))


class Fetch(Protocol):
    """Sends one request, already guarded and paced. Raises `Transient` or `Permanent`; never retries by itself."""

    async def __call__(self, request: Request) -> Response: ...
