"""Access tokens: whose they are, when they expire, how they are refreshed. And the tokens of pages."""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from forager.sandbox.google.config import GoogleConfig


class Caller(NamedTuple):
    """Who sent a call. `problem` is the reason of a 401; None if the token is good."""

    tenant: str
    problem: str | None


class AccessTokens:
    """Every token with the prefix is good from its first use until it expires; the rest are unknown."""

    def __init__(self, config: GoogleConfig) -> None:
        self._config = config
        self._uses: dict[str, tuple[float, int]] = {}
        self._expired: set[str] = set()
        self._serials: dict[str, int] = {}

    def check(self, header: bytes | None, now: float) -> Caller:
        """Read an `Authorization` header and count the use."""
        scheme, _, token = (header or b"").decode("latin-1").partition(" ")
        if not token or scheme.lower() != "bearer":
            return Caller("", "CREDENTIALS_MISSING")
        if not token.startswith(self._config.prefix) or len(token) == len(self._config.prefix):
            return Caller(f"…{token[-4:]}", "ACCESS_TOKEN_TYPE_UNSUPPORTED")
        tenant = self.tenant_of(token)
        since, uses = self._uses.get(token, (now, 0))
        most = self._config.tenant(tenant).expires_after
        old = now - since > self._config.token_seconds or (most is not None and uses >= most)
        if old or token in self._expired:
            return Caller(tenant, "ACCESS_TOKEN_EXPIRED")
        self._uses[token] = since, uses + 1
        return Caller(tenant, None)

    def tenant_of(self, token: str) -> str:
        return token[len(self._config.prefix) :].partition(".")[0]

    def expire(self, token: str) -> None:
        """Let this access token answer 401 from now on."""
        self._expired.add(token)

    def refresh(self, refresh_token: str) -> str | None:
        """Return a new access token for a tenant's refresh token (`1//PREFIXtenant`); None if the text is not one."""
        begin = f"1//{self._config.prefix}"
        if not refresh_token.startswith(begin) or refresh_token == begin or refresh_token in self._expired:
            return None
        tenant = refresh_token[len(begin) :]
        serial = self._serials.get(tenant, 1) + 1
        self._serials[tenant] = serial
        return f"{self._config.prefix}{tenant}.{serial}"


class PagePlace(NamedTuple):
    """Where a page begins: its ordinal number (from 1) and the offset of its first row."""

    page: int
    offset: int


FIRST = PagePlace(1, 0)


def page_token(place: PagePlace, listing: str) -> str:
    """An opaque token. `listing` names what is listed and how: the token is good for nothing else."""
    return urlsafe_b64encode(f"{place.page}:{place.offset}:{_mark(listing)}".encode()).decode().rstrip("=")


def read_page_token(token: str, listing: str) -> PagePlace | None:
    """The place that a token names; None if it is damaged or belongs to another listing."""
    try:
        page, offset, mark = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii").split(":")
        return PagePlace(int(page), int(offset)) if mark == _mark(listing) else None
    except ValueError:
        return None


def _mark(listing: str) -> str:
    return f"{zlib.crc32(listing.encode()):08x}"
