"""A client of the API that dies at a chosen request."""

from collections.abc import Mapping
from typing import Any

from forager.client.connect import LocalTransport
from forager.sdk.cli.client import ApiAnswer


class Killed(Exception):
    """The client is gone."""


class DyingTransport:
    """Carries a number of requests; then its client is gone, before or after the server has acted on the last one."""

    where = "here"

    def __init__(self, api: Any, requests: float, *, acts: bool) -> None:
        self._send = LocalTransport(api)
        self._left = requests
        self._acts = acts

    async def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ApiAnswer:
        self._left -= 1
        if self._left > 0:
            return await self._send(method, target, headers, body)
        if self._acts:
            await self._send(method, target, headers, body)
        raise Killed
