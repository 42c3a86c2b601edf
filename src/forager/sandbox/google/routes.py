"""Which method of which API a path names. Pure."""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl


class Asked(NamedTuple):
    """One call, understood. Ids that the method does not have are empty."""

    operation: str
    account: str = ""
    location: str = ""
    review: str = ""
    query: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def subject(self) -> str:
        """The resource as Google names it: `accounts/1/locations/2`."""
        named = (("accounts", self.account), ("locations", self.location), ("reviews", self.review))
        return "/".join(f"{kind}/{key}" for kind, key in named if key)

    @property
    def listing(self) -> str:
        """What is listed and how: a page token is good for this alone."""
        return "|".join((self.operation, self.subject, self.query.get("orderBy", ""), self.query.get("filter", "")))


def read_route(host: str, method: str, path: str, query: str) -> Asked | None:
    """The method that is called; None if this API has none at this path."""
    for at, verb, pattern, operation in _ROUTES:
        if at == host and verb == method:
            match = pattern.fullmatch(path)
            if match is not None:
                sent = dict(parse_qsl(query, keep_blank_values=True))
                return Asked(operation, **match.groupdict(), query=sent)
    return None


_ACCOUNT = r"/accounts/(?P<account>[^/]+)"
_REVIEWS = rf"/v4{_ACCOUNT}/locations/(?P<location>[^/]+)/reviews"
_REVIEW = rf"{_REVIEWS}/(?P<review>[^/]+)"
_ROUTES = tuple(
    (host, verb, re.compile(pattern), operation)
    for host, verb, pattern, operation in (
        ("accounts", "GET", r"/v1/accounts", "accounts.list"),
        ("accounts", "GET", rf"/v1{_ACCOUNT}", "accounts.get"),
        ("locations", "GET", rf"/v1{_ACCOUNT}/locations", "locations.list"),
        ("locations", "GET", r"/v1/locations/(?P<location>[^/]+)", "locations.get"),
        ("reviews", "GET", _REVIEWS, "reviews.list"),
        ("reviews", "GET", _REVIEW, "reviews.get"),
        ("reviews", "PUT", rf"{_REVIEW}/reply", "reviews.reply"),
        ("reviews", "DELETE", rf"{_REVIEW}/reply", "reviews.unreply"),
    )
)
