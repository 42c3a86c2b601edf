"""Classifies an answer. Pure, fast, never raises; reads only the beginning of a page.

block        a no that another request would get again: 403, 429, 503 or 999 with the mark of a bot wall or a captcha,
             or a page of any status that is little more than such a wall
challenge    a script that tests for a browser and lets it through by itself: "just a moment", a cookie and a reload
empty_shell  a 2xx HTML page with next to no visible text, filled only by scripts: an empty app root,
             an empty headline, "please enable JavaScript", or nothing but the scripts; but not one that
             has structured data about its subject
page         everything else: small honest pages, errors in plain words, login forms, and all that is not HTML

Text in <noscript> is text: it is what a reader without scripts gets, and on forums the whole discussion.

A page that a browser has rendered cannot be a shell any more, and a challenge that is still there is a block. A long
text is always a page: a captcha in its contact form, or an article about captchas, makes it no wall.
"""

import re
from collections.abc import Mapping

from forager.core.http import Looks

WINDOWS = (4 * 1024, 8 * 1024, 32 * 1024, 96 * 1024, 768 * 1024)
"""Bytes of a page that are examined; more only if they contain little text: some good pages begin with half a megabyte
of scripts, which name the vendors of walls."""
MARKED = 96 * 1024
"""Bytes in which the marks of walls and shells are searched."""
LONGEST_HEAD = 512 * 1024
"""Largest offset of its body from the start."""
MOST_ELEMENTS = 3_000
"""A page with more text than this in its first part is neither a shell nor a wall."""
LITTLE = 1_200
"""Visible characters under which a page may be a wall …"""
LESS = 500
"""… or a shell, if something of it waits to be filled …"""
NEXT_TO_NONE = 30
"""… or a shell without further signs, if it loads scripts."""
A_SENTENCE = 200
"""Maximum text of a page that sets a cookie and reloads itself."""
WALL = 16 * 1024
"""A wall with a 2xx status is short, or identifies itself at once."""
TITLE = 2 * 1024
"""Maximum distance of the title from the start."""
WALL_STATUSES = frozenset((401, 403, 405, 429, 503, 999))

# Possessive quantifiers throughout: no backtracking, whatever a page contains.
_HIDDEN = re.compile(
    rb"<(?:(script|style|template|svg|title|iframe)\b[^<]*+(?:<(?!/\1)[^<]*+)*+(?:</\1[^>]*+>?|\Z)"
    rb"|!--[^>]*+(?:(?<!--)>[^>]*+)*+>?"
    rb"|[^>]*+>?)"
)

_CHALLENGES = (
    b"_cf_chl_opt",
    b"/orchestrate/chl_page",
    b"/orchestrate/jsch",
    b"cf-browser-verification",
    b"jschl_vc",
    b"checking your browser before accessing",
    b"sucuri_cloudproxy_js",
    b"check.ddos-guard.net",
    b"/.well-known/ddos-guard/",
    b"awswafcookiedomainlist",
    b"sec-if-cpt-container",
    b"bm-verify=",
    b"var dd={'rt':'i'",
    b"window.kpsdk",
)
_BLOCKS = (
    b"attention required! | cloudflare",
    b"sorry, you have been blocked",
    b"px-captcha",
    b"captcha-delivery.com",
    b"errors.edgesuite.net",
    b"incapsula incident id",
    b"/errors/validatecaptcha",
    b"our systems have detected unusual traffic",
    b"pardon our interruption",
    b"why do i have to complete a captcha",
)
# These also stand on the good pages of a guarded site, and on the errors of its guard.
_WEAK_CHALLENGES = (b"/_incapsula_resource?swjiylwa", b"/cdn-cgi/challenge-platform/")
_WEAK_BLOCKS = (b"_pxappid", b"cf-error-details")
_CAPTCHAS = (b"g-recaptcha", b"h-captcha", b"hcaptcha.com", b"cf-turnstile", b"recaptcha/api.js", b"captcha")
_ACCUSATIONS = (
    b"are you a human",
    b"are you human",
    b"are you a robot",
    b"not a robot",
    b"verify you are human",
    b"verify that you are human",
    b"verifying you are human",
    b"robot check",
    b"press & hold",
    b"press &amp; hold",
    b"unusual traffic",
    b"unusual activity",
    b"automated access",
    b"automated requests",
)
_RELOADS = re.compile(rb"location\s{0,9}\.\s{0,9}(?:reload|replace)\s{0,9}\(|location(?:\.href)?\s{0,9}=[^=]")

# Each begins with fixed letters, so that a search is fast.
_ROOT = re.compile(
    rb"id\s?=\s?[\"']?(?:root|app|__next|__nuxt|___gatsby|react-?root|app-?root|app-?container|app-?mount|main-app|svelte"
    rb"|ember-app|q-app)[\"'\s>]"
)
_ROOT_TAGS = (b"<app-root", b"ng-app", b"data-reactroot")
_EMPTY_HEADLINE = re.compile(rb"<h1\b[^>]*+>\s*+</h1")
_GAP = re.compile(rb"\{\{\s{0,9}[a-z][\w.]*+\s{0,9}\}\}")
_NO_SCRIPT = re.compile(rb"<noscript\b[^>]*+>(?:[^<]++|<(?!/noscript))*+")
_SCRIPT = re.compile(rb"<script\b|<link\b[^>]*?\bmodulepreload\b")
_ABOUT = re.compile(
    rb"\"@type\"\s{0,9}:\s{0,9}\[?\s{0,9}\"(?:[a-z]*product|[a-z]*offer|car|vehicle|jobposting|person|profilepage|place|localbusiness"
    rb"|residence|apartment|house|singlefamilyresidence|accommodation|realestatelisting|[a-z]*article|recipe|event)\""
)
_NEEDED = (b"javascript", b"enable js", b"java script")


def looks(status: int, headers: Mapping[str, str], body: bytes, rendered: bool = False) -> Looks:
    """Classify an answer. `headers` may be in any case. The body is decoded; its character set does not matter."""
    seen = _look(status, {name.lower(): value.lower() for name, value in headers.items()}, body)
    if rendered and seen == "challenge":
        return "block"
    return "page" if rendered and seen == "empty_shell" else seen


def _look(status: int, headers: Mapping[str, str], body: bytes) -> Looks:
    declared = _said(status, headers)
    if declared is not None:
        return declared
    wall = status in WALL_STATUSES
    if not _is_html(headers.get("content-type", ""), body):
        return _wall(status, body[:MARKED].lower(), b"") or "page" if wall else "page"
    text = _visible(body)
    if not wall and len(text) >= LITTLE:
        return "page"
    whole = body[:MARKED].lower()
    verdict = _wall(status, whole if wall else whole[:WALL], text)
    if verdict is not None:
        return verdict
    return "empty_shell" if 200 <= status < 300 and _is_shell(whole, text) else "page"


def _said(status: int, headers: Mapping[str, str]) -> Looks | None:
    """Return the part of the page in which a wall would identify itself."""
    action = headers.get("x-amzn-waf-action") or headers.get("cf-mitigated")
    if action == "challenge":
        return "challenge"
    if action == "captcha" or status == 999:
        return "block"
    if status in (403, 429):
        if "x-kpsdk-ct" in headers:
            return "challenge"
        if "x-datadome" in headers:
            return "block"
    return None


def _is_html(kind: str, body: bytes) -> bool:
    if kind:
        return "html" in kind
    start = body[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return start.startswith(b"<") and not start.startswith((b"<?xml", b"<svg", b"<rss", b"<feed", b"<urlset"))


def _visible(body: bytes) -> bytes:
    """Return the text visible without scripts, in lower case, with white space collapsed; enough of it to decide."""
    start = body.find(b"<body", 0, LONGEST_HEAD)
    if start < 0:
        start = max(0, body.find(b"<BODY", 0, LONGEST_HEAD))
    text = b""
    for window in WINDOWS:
        shown = _HIDDEN.sub(b" ", body[start : start + window].lower(), count=MOST_ELEMENTS)
        text = b" ".join(shown.replace(b"&nbsp;", b" ").split())
        if len(text) >= LITTLE or start + window >= len(body):
            break
    return text


def _wall(status: int, head: bytes, text: bytes) -> Looks | None:
    """Recognise a block or a challenge by its marks."""
    accused = status in WALL_STATUSES
    bare = status < 500 and (accused or len(text) < A_SENTENCE)
    if _has(head, _CHALLENGES):
        return "challenge"
    if _has(head, _BLOCKS) or (b"access denied" in text and b"reference #" in text):
        return "block"
    if bare and _has(head, _WEAK_BLOCKS):
        return "block"
    if bare and _has(head, _WEAK_CHALLENGES):
        return "challenge"
    if (accused or _has(head[:TITLE] + text, _ACCUSATIONS)) and _has(head, _CAPTCHAS):
        return "block"
    if len(text) < A_SENTENCE and b"document.cookie" in head and _RELOADS.search(head):
        return "challenge"
    return None


def _has(head: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in head for mark in marks)


def _is_shell(head: bytes, text: bytes) -> bool:
    if len(text) >= LESS or not _SCRIPT.search(head):
        return False
    if _ABOUT.search(head) or head.count(b"itemprop=") > 2:
        return False
    if len(text) < NEXT_TO_NONE and b"<form" not in head and b"<img" not in head:
        return True
    if _ROOT.search(head) or _EMPTY_HEADLINE.search(head) or _GAP.search(head):
        return True
    return _has(head, _ROOT_TAGS) or any(_has(part, _NEEDED) for part in _NO_SCRIPT.findall(head))
