"""Collects the JSON that a page's scripts fetch during a visit, for a caller who wants the data instead of the page.

It listens to the page's DevTools session (`Network` domain) and copies an answer when it is complete. Number and size
are limited: what exceeds a limit is left out, and never fills our memory. It sends nothing and changes nothing.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import orjson

from forager.core.http import Action, CapturedJson, CaptureJson

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

MOST_CAPTURED = 50
MOST_EACH = 1024 * 1024
MOST_TOGETHER = 4 * 1024 * 1024
LAST_ANSWERS = 3.0
"""Seconds to wait at the end for answers that are being copied."""
TYPES = ("XHR", "Fetch")


class JsonCapture:
    """The capture of one visit."""

    def __init__(self, session: "CDPSession", wanted: CaptureJson) -> None:
        self._session = session
        self._match = wanted.match
        self._most = min(wanted.most, MOST_CAPTURED)
        self._methods: dict[str, str] = {}
        self._open: dict[str, tuple[str, str, int]] = {}
        """URL, method and status of answers that are not complete yet, by request."""
        self._order: list[str] = []
        self._found: dict[str, CapturedJson] = {}
        self._size = 0
        self._copying: set[asyncio.Task[None]] = set()

    @classmethod
    def of(cls, session: "CDPSession", script: Sequence[Action]) -> "JsonCapture | None":
        """Return the capture that a script requests; None if it requests none."""
        wanted = next((action for action in script if isinstance(action, CaptureJson)), None)
        return None if wanted is None else cls(session, wanted)

    async def start(self) -> None:
        self._session.on("Network.requestWillBeSent", self._sent)
        self._session.on("Network.responseReceived", self._answered)
        self._session.on("Network.loadingFinished", self._complete)
        limits = {"maxTotalBufferSize": 2 * MOST_TOGETHER, "maxResourceBufferSize": MOST_EACH}
        await self._session.send("Network.enable", limits)

    async def answers(self) -> tuple[CapturedJson, ...]:
        """Return what was captured until now, in the order in which the answers began."""
        if self._copying:
            await asyncio.wait(self._copying, timeout=LAST_ANSWERS)
        return tuple(self._found[number] for number in self._order if number in self._found)

    def stop(self) -> None:
        for task in self._copying:
            task.cancel()

    def _sent(self, event: dict[str, Any]) -> None:
        if event.get("type") in TYPES and len(self._methods) < 10 * MOST_CAPTURED:
            self._methods[event["requestId"]] = str(event["request"]["method"])

    def _answered(self, event: dict[str, Any]) -> None:
        answer, number = event["response"], event["requestId"]
        if event.get("type") not in TYPES or "json" not in str(answer.get("mimeType", "")).lower():
            return
        if self._match not in answer["url"] or len(self._order) >= self._most:
            return
        self._order.append(number)
        method = self._methods.get(number, "GET")
        self._open[number] = (str(answer["url"]), method, int(answer["status"]))

    def _complete(self, event: dict[str, Any]) -> None:
        number = event["requestId"]
        if number in self._open:
            task = asyncio.create_task(self._copy(number, *self._open.pop(number)))
            self._copying.add(task)
            task.add_done_callback(self._copying.discard)

    async def _copy(self, number: str, url: str, method: str, status: int) -> None:
        from playwright.async_api import Error

        try:
            read = await self._session.send("Network.getResponseBody", {"requestId": number})
            body = base64.b64decode(read["body"]) if read.get("base64Encoded") else read["body"].encode()
            orjson.loads(body)
        except (Error, binascii.Error, UnicodeError, ValueError):
            return  # not JSON, too large for the browser's buffer, or the page has navigated
        if len(body) > MOST_EACH or self._size + len(body) > MOST_TOGETHER:
            return
        self._size += len(body)
        self._found[number] = CapturedJson(url, method, status, body)
