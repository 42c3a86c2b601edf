"""Reads the rendered page into a `Response`: the status and headers of the answer, and the current HTML.

It is read in an isolated JavaScript world, which the page's own changes to built-in objects do not reach. Its size is
checked there, before it is transferred, so that a page cannot fill our memory.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from forager.core.errors import Refused, Transient
from forager.core.http import Response
from forager.core.reasons import Reason
from forager.fetch.browser.failures import quietly
from forager.fetch.browser.intercept import Answer

if TYPE_CHECKING:
    from datetime import datetime

    from playwright.async_api import CDPSession, Page

TRIES = 3
GOING_ELSEWHERE = 5.0
# These headers describe the bytes on the wire, not the rendered page.
NOT_OF_THE_PAGE = frozenset(("content-encoding", "content-length", "transfer-encoding", "content-type"))
_SERIALISED = """(() => {
  const type = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
  const text = type + (document.documentElement ? document.documentElement.outerHTML : '');
  return text.length > %d ? text.length : text;
})()"""


async def read_html(page: "Page", session: "CDPSession", frame: str, most: int) -> bytes:
    """Return the current HTML. If the page navigates meanwhile, wait for the new one."""
    from playwright.async_api import Error

    for attempt in range(1, TRIES + 1):
        try:
            html = await _evaluated(session, frame, _SERIALISED % most)
            break
        except (Error, KeyError):
            if attempt == TRIES or page.is_closed():
                raise
            await quietly(page.wait_for_load_state("domcontentloaded", timeout=GOING_ELSEWHERE * 1000))
    body = html.encode(errors="replace") if isinstance(html, str) else None
    if body is None or len(body) > most:
        raise Refused(f"the page is larger than its cap of {most:,} bytes.", reason=Reason.TOO_LARGE)
    return body


def response_of(url: str, answer: Answer | None, body: bytes, console: Sequence[str], at: "datetime") -> Response:
    if answer is None:
        message = "the browser shows a page that no answer belongs to."
        raise Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)
    headers = CIMultiDict((name, value) for name, value in answer.headers if name.lower() not in NOT_OF_THE_PAGE)
    headers["Content-Type"] = "text/html; charset=utf-8"
    return Response(
        url=url if url.startswith("http") else answer.url,
        status=answer.status,
        headers=headers,
        body=body,
        at=at,
        elapsed_ms=0,
        rendered=True,
        console=tuple(console),
    )


async def _evaluated(session: "CDPSession", frame: str, expression: str) -> object:
    world = await session.send("Page.createIsolatedWorld", {"frameId": frame, "worldName": "forager"})
    read = await session.send(
        "Runtime.evaluate",
        {"expression": expression, "contextId": world["executionContextId"], "returnByValue": True},
    )
    value: object = read["result"]["value"]
    return value
