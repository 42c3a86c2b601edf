"""The held-out third of the shared data set: sites whose pages are read to be scored and for nothing else.

A rule that is written by looking at a page fits that page. Whether it fits others is told by pages that were not
looked at, so the bench prints what went wrong on the pages of the other two thirds only.
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
    """Whether the page belongs to the held-out third. Decided by a hash of its site, so that it never changes."""
    return hashlib.sha256(site(page).encode()).digest()[0] % 3 == 0
