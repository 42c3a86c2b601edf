"""The pages of a sandbox site, by path: honest ones, and one of each kind that a crawler meets. Pure.

`/`, `/page/<n>`         text and links
`/shell`                 an empty shell: `/app.js` fills it in a browser
`/challenge`             a script sets a cookie and loads the page again; with the cookie it is a page
`/blocked`               403 with a captcha
`/login`                 a log-in form in the place of a page
`/status/<code>`         that status; `?after=5` adds `Retry-After`, `?after_date=5` the same as a date
`/redirect?to=<url>`     302, or `&status=<code>`
`/slow?seconds=<n>`      a page after so many seconds
`/huge?bytes=<n>`        an answer as long as that
`/cookie`                says which cookies it was sent
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from urllib.parse import parse_qs

from forager.sandbox.wire import HTML, Request

TEXT = b"text/plain; charset=utf-8"
SCRIPT = b"text/javascript"
PAGES = 1_000
_WORDS = "Oak table, two metres long, made in our own workshop from local wood. "
_FILL = (
    "document.getElementById('root').innerHTML = '<h1 id=\"filled\">Filled by a script</h1><p>' + "
    f"'{_WORDS}'.repeat(10) + '</p>';"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site says to one request."""

    status: int = 200
    body: bytes = b""
    kind: bytes = HTML
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    """Seconds until it is said."""
    padding: int = 0
    """So many bytes more, written at the speed at which they are read."""


def retry_after(seconds: float, *, date: bool = False) -> dict[str, str]:
    """The header, as seconds or as the moment that they end."""
    return {"Retry-After": formatdate(time.time() + seconds, usegmt=True) if date else str(round(seconds))}


def page(title: str, body: str, status: int = 200) -> Answer:
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return Answer(status, text.encode())


def usual_answer(request: Request) -> Answer:
    """What a site with nothing special set says."""
    _, first, *rest = (*request.path.split("/"), "")
    asked = {name: values[0] for name, values in parse_qs(request.query).items()}
    if first in ("", "page"):
        return _listed(first, rest[0] if rest else "")
    if first == "status" and rest and rest[0].isdigit():
        return _status(int(rest[0]), asked)
    if first == "redirect":
        return Answer(int(asked.get("status", 302)), headers={"Location": asked.get("to", "/")})
    if first == "slow":
        return Answer(200, _honest(1).body, delay=float(asked.get("seconds", 1)))
    if first == "huge":
        return Answer(200, b"<!doctype html><p>", padding=int(asked.get("bytes", 48 * 1024 * 1024)))
    if first == "challenge":
        return _challenge(request.headers.get(b"cookie", b""))
    if first == "cookie":
        return Answer(200, request.headers.get(b"cookie", b""), TEXT)
    return _FIXED.get(first, page("Not found", "<h1>404</h1><p>There is no such page.</p>", 404))


def _listed(first: str, number: str) -> Answer:
    if not first:
        links = "".join(f"<li><a href='/page/{n}'>Table {n}</a></li>" for n in range(1, 11))
        return page("Tables", f"<h1>Tables</h1><ul>{links}</ul><p>{_WORDS * 10}</p>")
    if not number.isdigit() or not 1 <= int(number) <= PAGES:
        return page("Not found", "<h1>404</h1><p>There is no such table.</p>", 404)
    return _honest(int(number))


def _honest(number: int) -> Answer:
    more = f"<a href='/page/{number % PAGES + 1}'>Next</a>"
    return page(f"Table {number}", f"<h1>Table {number}</h1><p>{_WORDS * 20}</p>{more}")


def _status(status: int, asked: Mapping[str, str]) -> Answer:
    headers: dict[str, str] = {}
    if "after" in asked:
        headers = retry_after(float(asked["after"]))
    elif "after_date" in asked:
        headers = retry_after(float(asked["after_date"]), date=True)
    return Answer(status, page(str(status), f"<h1>{status}</h1>").body, headers=headers)


def _challenge(cookies: bytes) -> Answer:
    if b"passed=yes" in cookies:
        return _honest(1)
    return page("One moment", "<script>document.cookie='passed=yes;path=/';location.reload();</script>", 403)


_FIXED = {
    "shell": page("App", "<div id='root'></div><script src='/app.js'></script>"),
    "app.js": Answer(200, _FILL.encode(), SCRIPT),
    "blocked": page("Robot check", "<p>Are you a robot?</p><div class='h-captcha'></div>", 403),
    "login": page("Sign in", "<h1>Sign in</h1><form method='post'><input name='user'><input type='password'></form>"),
}
