"""The links of a page that a crawl of its site may follow. Pure.

One pass over `a[href]`, and only on pages whose links are followed: reading links costs more than parsing the page.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from forager.core.hosts import host_of
from forager.extract.canonical import canonical_url
from forager.extract.document import Document

MOST = 3_000
"""Links of one page that are looked at."""
_NO_PAGE = re.compile(
    r"\.(?:jpe?g|png|gif|webp|svg|ico|css|js|json|xml|pdf|zip|gz|mp[34]|avi|mov|docx?|xlsx?|pptx?|woff2?|rss|atom)$",
    re.IGNORECASE,
)
_NOT_FOR_US = re.compile(
    r"/(?:cart|basket|checkout|log-?in|sign-?in|sign-?up|register|account|my-account|wish-?list|compare|search|privacy"
    r"|terms|imprint|impressum|contact|help|faq|cookies?|warenkorb|panier|customer)(?:/|\.|$)",
    re.IGNORECASE,
)
_ORDER = re.compile(r"(?:^|&)(?:sort|order|dir|view|limit|per_page|sid|sessionid|add-to-cart)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundLink:
    url: str
    """Canonical."""
    is_next: bool
    """Leads to the next page of the same list: following it goes no deeper."""


def followable(document: Document) -> Iterator[FoundLink]:
    """Each page of the same host once, in the order of the page; without carts, log-ins, files and other orders."""
    host = host_of(document.url)
    own = canonical_url(document.url)
    seen = {own}
    for node in document.tree.css("a[href]")[:MOST]:
        attributes = node.attributes
        rel = (attributes.get("rel") or "").lower().split()
        if "nofollow" in rel:
            continue
        url = _page_of(document, attributes.get("href") or "", host)
        if url is not None and url not in seen:
            seen.add(url)
            yield FoundLink(url, "next" in rel)


def _page_of(document: Document, href: str, host: str) -> str | None:
    absolute = document.absolute(href)
    if absolute is None or not absolute.startswith(("http://", "https://")):
        return None
    try:
        url = canonical_url(absolute)
        if host_of(url) != host:
            return None
    except ValueError:
        return None
    parts = urlsplit(url)
    if _NO_PAGE.search(parts.path) or _NOT_FOR_US.search(parts.path) or _ORDER.search(parts.query):
        return None
    return url
