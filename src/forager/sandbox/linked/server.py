"""The linked site on a port of this machine."""

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl

from forager.sandbox.journal import Call
from forager.sandbox.linked.pages import LinkedConfig, LinkedPages
from forager.sandbox.scrape_pages import TEXT
from forager.sandbox.upstream import Reply, Upstream
from forager.sandbox.wire import HTML, WireRequest

_UTF8 = b"text/html; charset=utf-8"
_ARTICLE = re.compile(r"(/m)?/s(\d+)/article-(\d+)")
_LIST = re.compile(r"/s(\d+)/")
_CALENDAR = re.compile(r"/calendar/(\d{1,6})/(\d{1,2})")
_FORUM = re.compile(r"/forum/(\d+)(?:;jsessionid=(\w+))?")
_NUMBERED = re.compile(r"/(print|old)/(\d+)")
_STATUSES = {"http403": 403, "http404": 404}


class LinkedSandbox(Upstream[LinkedConfig]):
    """`async with LinkedSandbox(config) as site:` — then crawl `site.url("/")`."""

    host_names: ClassVar[tuple[str, ...]] = ("site",)

    def __init__(
        self,
        config: LinkedConfig | None = None,
        *,
        now: Callable[[], datetime] | None = None,
        ports: Mapping[str, int] | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(config or LinkedConfig(), now=now, ports=ports or {"site": port})
        self.prepare()

    @property
    def port(self) -> int:
        return self.hosts["site"].port

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def prepare(self) -> None:
        self.pages = LinkedPages(self.config)

    def announcement(self) -> dict[str, Any]:
        return {"url": self.url(), "pages": self.config.pages, "useful": len(self.pages.useful())}

    def error(self, fault: str, call: Call) -> Reply | None:
        status = _STATUSES.get(fault)
        return None if status is None else Reply(status, b"<html><body><h1>%d</h1></body></html>" % status, HTML)

    def answer(self, host: str, request: WireRequest, call: Call) -> Reply:
        call.operation = "page"
        call.subject = f"{request.path}?{request.query}" if request.query else request.path
        call.host = request.headers.get(b"host", b"").decode("latin-1")
        fault, failed = self.fault_of(call)
        if failed is not None:
            return failed
        reply = self._reply(request, call.host)
        reply.fault = fault
        if reply.status == 200 and reply.kind == _UTF8:
            reply = self._validated(reply, request)
        return self._slowed(reply, request.path)

    def _validated(self, reply: Reply, request: WireRequest) -> Reply:
        tag = b'"%s"' % hashlib.sha256(reply.body).hexdigest()[:20].encode()
        headers = b"ETag: %b\r\n" % tag
        if request.headers.get(b"if-none-match") == tag:
            return Reply(304, b"", _UTF8, headers, reply.fault)
        reply.headers += headers
        return reply

    def _slowed(self, reply: Reply, path: str) -> Reply:
        match = _ARTICLE.fullmatch(path)
        every = self.config.slow_every
        if not every or match is None or int(match[3]) % every:
            return reply
        until = time.monotonic() + self.config.slow_seconds
        return Reply(200, later=lambda: reply if time.monotonic() >= until else None, fault=reply.fault)

    def _reply(self, request: WireRequest, host: str) -> Reply:
        path = request.path
        if path == "/":
            return _html(self.pages.home())
        if path == "/robots.txt":
            line = f"Sitemap: http://{host}/sitemap.xml\n" if self.config.sitemap else ""
            return Reply(200, f"User-agent: *\nDisallow: /private/\n{line}".encode(), TEXT)
        if path == "/sitemap.xml" and self.config.sitemap:
            return Reply(200, self.pages.sitemap(f"http://{host}").encode(), b"application/xml")
        if match := _ARTICLE.fullmatch(path):
            number = int(match[3])
            if 1 <= number <= self.config.pages and self.pages.path(number) == path.removeprefix("/m"):
                return _html(self.pages.article(number, copy="mobile" if match[1] else None))
        if match := _LIST.fullmatch(path):
            return self._list(int(match[1]), request.query)
        if self.config.traps and (reply := self._trap(path, request.query)) is not None:
            return reply
        return Reply(404, b"<html><body><h1>Page not found</h1></body></html>", HTML)

    def _list(self, section: int, query: str) -> Reply:
        given = dict(parse_qsl(query))
        page = given.pop("page", "1")
        number = int(page) if page.isdigit() else 0
        if section < self.pages.sections and 1 <= number <= self.pages.lists_of(section):
            return _html(self.pages.listing(section, number, tuple(sorted(given.items()))))
        return Reply(404, b"<html><body><h1>Page not found</h1></body></html>", HTML)

    def _trap(self, path: str, query: str) -> Reply | None:
        if (match := _CALENDAR.fullmatch(path)) and 1 <= int(match[2]) <= 12:
            return _html(self.pages.calendar(int(match[1]), int(match[2])))
        if match := _FORUM.fullmatch(path):
            return _html(self.pages.forum(int(match[1]), f"{match[2]}{query}"))
        match = _NUMBERED.fullmatch(path)
        if match is None or not 1 <= int(match[2]) <= self.config.pages:
            return None
        if match[1] == "old":
            target = self.pages.path(int(match[2]))
            return Reply(301, b"", HTML, f"Location: {target}\r\n".encode())
        return _html(self.pages.article(int(match[2]), copy="print"))


def _html(text: str) -> Reply:
    return Reply(200, text.encode(), _UTF8)
