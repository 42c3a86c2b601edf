"""A backend that keeps logins for sites, as the credential client expects one. Its log has every question."""

import hmac
from dataclasses import dataclass
from typing import Any

import orjson

from forager.sandbox.wire import Connection, PortListener, WireRequest


@dataclass(frozen=True, slots=True)
class Question:
    path: str
    headers: dict[str, str]
    status: int
    """Status of the answer; 0: the connection ended without one."""


class CredentialBackend(PortListener):
    """`async with CredentialBackend("key") as backend:` then `backend.keep("w1", "linkedin", {"li_at": "…"})`."""

    def __init__(self, key: str, prefix: str = "/api/v1") -> None:
        super().__init__()
        self.key = key
        self.log: list[Question] = []
        self._prefix = prefix
        self._kept: dict[str, Any] = {}
        self._trouble: list[int] = []

    @property
    def base_url(self) -> str:
        return self.url(self._prefix)

    def keep(self, workspace: str, provider: str, credentials: Any) -> None:
        self._kept[f"{self._prefix}/workspaces/{workspace}/credentials/{provider}"] = credentials

    def fail(self, *statuses: int) -> None:
        """The next questions are answered with these, in turn; 0 ends the connection without an answer."""
        self._trouble.extend(statuses)

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        status, body = self._answer(request)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers.items()}
        self.log.append(Question(request.path, headers, status))
        if status == 0:
            connection.cut()
        else:
            connection.send(status, body if isinstance(body, bytes) else orjson.dumps(body))

    def _answer(self, request: WireRequest) -> tuple[int, Any]:
        if self._trouble:
            return self._trouble.pop(0), {"message": "in trouble"}
        if not hmac.compare_digest(request.headers.get(b"x-service-key", b""), self.key.encode()):
            return 401, {"message": "wrong key"}
        if request.path not in self._kept:
            return 404, {"message": "none"}
        return 200, self._kept[request.path]
