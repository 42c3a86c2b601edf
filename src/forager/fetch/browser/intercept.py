"""Holds each navigation of a visit until its lane admits it, records the answer, and blocks resource types that the
lane does not load.

It uses the page's DevTools session (`Fetch` domain), for documents and the blocked types only. Playwright's routing
would stop every request of the page and shows only the first hop of a redirect; this sees every hop before it is sent,
and costs other requests nothing. For the same reason it also supplies the gate's password: the browser requests it at
the first document and remembers it for the rest of the visit. Playwright's request and response events are not used
either, because each costs as much as loading a small file. Frames of other sites have their own sessions: their
resources are not blocked. This module is about politeness only; the gate, which sees everything, decides what may be
reached.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forager.core.errors import Refused
from forager.core.http import Request
from forager.core.states import Reason
from forager.fetch.browser.gate import USERNAME, Passage
from forager.fetch.guard import EgressGuard
from forager.fetch.http.connect import shown

if TYPE_CHECKING:
    from playwright.async_api import CDPSession

MOST_NAVIGATIONS = 20
"""Maximum navigations of one visit, besides redirects: a page that keeps navigating by itself is stopped."""
KINDS = {"image": "Image", "font": "Font", "media": "Media", "stylesheet": "Stylesheet"}


@dataclass(frozen=True, slots=True)
class MainAnswer:
    url: str
    status: int
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each.lower() == name), None)


class Intercept:
    """`failed` is called with the error that ends the visit; `held` stops its time while a hop waits for its lane."""

    def __init__(
        self,
        session: "CDPSession",
        request: Request,
        guard: EgressGuard,
        passage: Passage,
        *,
        failed: Callable[[Exception], None],
        held: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._session = session
        self.frame = ""
        """The main frame, known from the first navigation on."""
        self.answer: MainAnswer | None = None
        """The answer to the last navigation of the main frame."""
        self.last_url = request.url
        """The URL of the last navigation of the main frame."""
        self._request = request
        self._guard = guard
        self._passage = passage
        self._asked: set[str] = set()
        self._failed = failed
        self._held = held
        self._navigations = 0
        self._redirects = 0
        self._running: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        kinds = [KINDS[kind] for kind in sorted(self._request.block) if kind in KINDS]
        patterns = [{"resourceType": kind} for kind in ("Document", *kinds)]
        patterns.append({"resourceType": "Document", "requestStage": "Response"})
        self._session.on("Fetch.requestPaused", self._paused)
        self._session.on("Fetch.authRequired", self._challenged)
        await self._session.send("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})

    def stop(self) -> None:
        for task in self._running:
            task.cancel()

    def _paused(self, event: dict[str, Any]) -> None:
        self._run(self._decide(event))

    def _challenged(self, event: dict[str, Any]) -> None:
        self._run(self._sign_in(event))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _decide(self, event: dict[str, Any]) -> None:
        number, frame = event["requestId"], event.get("frameId")
        self.frame = self.frame or str(frame)
        if event.get("resourceType") != "Document":
            await self._drop(number)
        elif "responseStatusCode" in event or "responseErrorReason" in event:
            if frame == self.frame:
                self._answered(event)
            await self._send("Fetch.continueRequest", number)
        elif frame == self.frame:
            await self._navigate(event, number)
        else:
            await self._send("Fetch.continueRequest", number)

    def _answered(self, event: dict[str, Any]) -> None:
        if "responseStatusCode" in event:
            headers = tuple((str(each["name"]), str(each["value"])) for each in event.get("responseHeaders", ()))
            self.answer = MainAnswer(str(event["request"]["url"]), int(event["responseStatusCode"]), headers)

    async def _navigate(self, event: dict[str, Any], number: str) -> None:
        try:
            await self._admit(event)
        except Exception as error:  # noqa: BLE001 - any error of a lane ends the visit, and is raised there
            self._failed(error)
            await self._drop(number)
            return
        if self._request.on_leave:
            self._request.on_leave()
        await self._send("Fetch.continueRequest", number)

    async def _admit(self, event: dict[str, Any]) -> None:
        self.last_url = url = str(event["request"]["url"])
        self._navigations += 1
        self._redirects = self._redirects + 1 if "redirectedRequestId" in event else 0
        if self._redirects > self._request.max_redirects:
            message = f"it redirects more than {self._request.max_redirects} times."
            raise Refused(message, reason=Reason.TOO_MANY_REDIRECTS)
        if self._navigations > MOST_NAVIGATIONS:
            message = f"it went on by itself more than {MOST_NAVIGATIONS} times."
            raise Refused(message, reason=Reason.TOO_MANY_REDIRECTS)
        if self._navigations == 1:
            return
        try:
            self._guard.check_url(url)
        except Refused as error:
            raise Refused(f"it redirects to {shown(url)}: {error.message}") from None
        if self._request.on_hop:
            with self._held():
                await self._request.on_hop(url)

    async def _sign_in(self, event: dict[str, Any]) -> None:
        """Supply the gate's password, once per request. A site that requests one gets nothing."""
        number, challenge = event["requestId"], event["authChallenge"]
        response = {"response": "CancelAuth"}
        own = challenge.get("source") == "Proxy" and challenge.get("origin") == self._passage.url
        if own and number not in self._asked:
            self._asked.add(number)
            response = {
                "response": "ProvideCredentials",
                "username": USERNAME,
                "password": self._passage.password.reveal(),
            }
        await self._send("Fetch.continueWithAuth", number, authChallengeResponse=response)

    async def _drop(self, number: str) -> None:
        await self._send("Fetch.failRequest", number, errorReason="BlockedByClient")

    async def _send(self, verb: str, number: str, **more: Any) -> None:
        with contextlib.suppress(Exception):  # the page navigated, or the visit is over: nothing waits for it
            await self._session.send(verb, {"requestId": number, **more})
