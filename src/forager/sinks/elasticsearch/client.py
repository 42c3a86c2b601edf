"""One cluster over HTTP: requests, and what the answers mean for the caller.

Only the connection is here; what is asked is in `mapping.py`, `questions.py` and `documents.py`.
"""

import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from forager.core.errors import Permanent, Transient

JSON, LINES = "application/json", "application/x-ndjson"
LONGEST_REASON = 300
BUSY = frozenset({408, 429})
"""Statuses below 500 with which a cluster asks to try again later."""


class Missing(Transient):
    """The alias or index is not there. It is created before the next write."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the cluster is, how to sign in, and how long to wait for it."""

    url: str
    timeout: float = 30.0
    authorization: str | None = field(default=None, repr=False)
    ca_file: Path | None = None


def basic(username: str, password: str) -> str:
    """The `Authorization` header of a user with a password."""
    return f"Basic {b64encode(f'{username}:{password}'.encode()).decode()}"


def api_key(encoded: str) -> str:
    """The `Authorization` header of an API key."""
    return f"ApiKey {encoded}"


class Client:
    """Sends requests to one cluster. Connections stay open between requests; `close` it at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, path: str, body: Any = None, *, query: Mapping[str, str] | None = None, none_if: int = 0
    ) -> Any:
        """Send a request and return the JSON of its answer, or None if its status is `none_if`.

        `body` is encoded as JSON; bytes are sent as lines of JSON. Raises `Missing` if the index is not there,
        `Permanent` if the cluster refuses the request, and `Transient` for everything that may pass, which includes
        missing rights: an operator grants them, and no change may be set aside meanwhile.
        """
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        headers = {"Content-Type": LINES if isinstance(body, bytes) else JSON}
        try:
            async with self._open().request(
                method, self.cluster.url + path, data=data, params=query, headers=headers, allow_redirects=False
            ) as response:
                status, content = response.status, await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            why = str(error) or f"no answer within {self.cluster.timeout:g} s"
            raise Transient(f"The search index ({self.cluster.url}) cannot be reached: {why}.") from error
        if status == none_if:
            return None
        if status >= 300:
            raise self._refusal(method, path, status, content)
        try:
            return orjson.loads(content) if content else {}
        except ValueError:
            raise Transient(f"The search index ({self.cluster.url}) did not answer with JSON.") from None

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            cluster = self.cluster
            headers = {"Authorization": cluster.authorization} if cluster.authorization else {}
            trusted = None if cluster.ca_file is None else ssl.create_default_context(cafile=str(cluster.ca_file))
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trusted or True),
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=cluster.timeout),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _refusal(self, method: str, path: str, status: int, content: bytes) -> Exception:
        kind, why = reason_of(content)
        message = f"The search index ({self.cluster.url}) answered {method} {path} with {status}: {why}."
        if status == 404 and kind in ("index_not_found_exception", "aliases_not_found_exception", ""):
            return Missing(message)
        if status in (401, 403):
            return Transient(f"{message} Check the FORAGER_ELASTICSEARCH_ settings and the rights of this user.")
        if status >= 500 or status in BUSY or status < 400:
            return Transient(message)
        return Permanent(message)


def reason_of(content: bytes) -> tuple[str, str]:
    """Return the type and the text of an error, as the cluster states them; its text may be cut."""
    try:
        error = orjson.loads(content)["error"]
    except (ValueError, LookupError, TypeError):
        return "", content[:LONGEST_REASON].decode(errors="replace") or "no reason given"
    if not isinstance(error, dict):
        return "", str(error)[:LONGEST_REASON]
    return str(error.get("type", "")), str(error.get("reason", ""))[:LONGEST_REASON]
