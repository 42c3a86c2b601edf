"""Logins for pages: cookies, each bound to a domain by the credential backend.

The backend must specify the domain of each cookie. The caller chooses the URL of a page, and a login must never be sent
to a host of the caller's choice.
"""

import re
from typing import Any

import orjson

from forager.core.errors import CredentialsMissing, Transient
from forager.core.hosts import checked_host
from forager.core.http import Cookie, LoginRef
from forager.core.secret import Secret
from forager.fetch.credentials import CredentialClient, Credentials

COOKIES = "cookies"
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}", re.ASCII)
_VALUE = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e\"]{1,4096}", re.ASCII)
"""Cookie values as in RFC 6265, including the quotes that some put around a value."""


class Logins:
    def __init__(self, client: CredentialClient) -> None:
        self._client = client

    @property
    def refusal(self) -> str | None:
        """Why the backend refuses our own key; None while it does not."""
        return self._client.refusal

    async def __call__(self, login: LoginRef) -> tuple[Cookie, ...]:
        """Return the cookies of a login. Raises `CredentialsMissing`, also if the backend does not answer, which is not
        the site's fault."""
        try:
            credentials = await self._client.get(login.workspace, login.provider)
        except Transient as error:
            raise CredentialsMissing(f"The log-in for {login.provider} cannot be had now: {error.message}") from None
        return cookies_of(credentials, login)


def cookies_of(credentials: Credentials, login: LoginRef) -> tuple[Cookie, ...]:
    """Read the cookies of a backend's answer: a list of {name, value, domain}, with secure: false for a cookie that may
    be sent without TLS."""
    kept = credentials.get(COOKIES)
    listed = _listed(kept.reveal()) if kept is not None else []
    cookies = [_cookie(each) for each in listed]
    if not cookies or None in cookies:
        raise CredentialsMissing(
            f"What the backend keeps for {login.provider} in workspace {login.workspace} has no `cookies` that can be"
            " used: a list of objects with name, value and domain."
        )
    return tuple(each for each in cookies if each is not None)


def _listed(text: str) -> list[Any]:
    try:
        decoded = orjson.loads(text)
    except ValueError:
        return []
    return decoded if isinstance(decoded, list) else []


def _cookie(entry: Any) -> Cookie | None:
    if not isinstance(entry, dict):
        return None
    name, value, domain = (entry.get(key) for key in ("name", "value", "domain"))
    if not (isinstance(name, str) and isinstance(value, str) and isinstance(domain, str)):
        return None
    if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
        return None
    host = _domain(domain.removeprefix("."))
    return None if host is None else Cookie(name, Secret(value), host, secure=entry.get("secure") is not False)


def _domain(text: str) -> str | None:
    """Check a cookie's domain: a host, or a domain of at least two labels. `com` is refused."""
    try:
        host = checked_host(text)
    except ValueError:
        return None
    return host if "." in host and ":" not in host else None
