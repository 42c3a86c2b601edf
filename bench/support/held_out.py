"""The held-out third of the shared data set: sites whose pages are scored and used for nothing else.

A rule that was written while looking at a page fits that page. Pages that the authors have not looked at show whether
it fits others, so the bench prints mistakes for the other two thirds only.
"""

import hashlib

ANNOTATED = "webstruct-"
"""Pages of this corpus are numbered, one site each."""


def site(page: str) -> str:
    """The site of a page by the page's name: `www.campmor.com-6` is of `www.campmor.com`, `lowes-kenexa-job` of
    `lowes`; `shop.example/0012` of `shop.example`."""
    if "/" in page:
        return page.partition("/")[0]
    return page if page.startswith(ANNOTATED) else page.partition("-")[0]


def is_held_out(page: str) -> bool:
    """Return whether the page belongs to the held-out third. A hash of its site decides, so that it never changes."""
    return hashlib.sha256(site(page).encode()).digest()[0] % 3 == 0
