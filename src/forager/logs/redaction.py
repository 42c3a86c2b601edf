"""Removes secrets from log events, and converts every value to plain data of bounded depth.

There are three independent checks, because none is complete: the name of a field, the known secrets anywhere in a text,
and the usual forms of credentials (bearer tokens, passwords in URLs, `api_key=…`). It never raises, because logging
must not break its caller.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import SecretBytes, SecretStr

STARS = "***"
DEEPEST = 8
MOST_ITEMS = 200
LONGEST_TEXT = 64 * 1024
SHORTEST_SECRET = 4

_SECRET_NAME = re.compile(
    r"(?:.*[_.\- ])?(?:key|token|password|passwd|passphrase|pwd|secrets?|authorization|auth|bearer|cookies?"
    r"|credentials?|signature|dsn)|database(?:_direct)?_url",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_URL_NAME = re.compile(r"(?:.*_)?ur[li]", re.IGNORECASE)

_BEARER = re.compile(r"\b(bearer|basic|digest)\s+[A-Za-z0-9._~+/=-]{6,}", re.IGNORECASE)
_URL_USER = re.compile(r"(?<=://)[^/\s@?#]*@")
_ASSIGNED = re.compile(
    r"""((?:key|token|password|passwd|pwd|secret|authorization|cookie|signature)
         (?:\\?["']?\s*[:=]\s*|["'],\s*)b?\\?["']?)   # name=…, 'name': '…', ('name', b'…'), escaped or not
        [^\s"'&,;<>\\)}\]]+""",
    re.IGNORECASE | re.VERBOSE,
)

Redact = Callable[[Mapping[str, Any]], dict[str, Any]]


def redaction(secrets: Iterable[str]) -> Redact:
    """Return a function that copies an event without secrets; `secrets` are removed wherever they occur."""
    known = _known(secrets)

    def text(value: str) -> str:
        if known is not None:
            value = known.sub(STARS, value)
        # Truncate only after known secrets are removed, so that no half of one is left; and before the patterns below,
        # which are slow on a page of megabytes.
        value = value[:LONGEST_TEXT]
        return _ASSIGNED.sub(rf"\1{STARS}", _URL_USER.sub(f"{STARS}@", _BEARER.sub(rf"\1 {STARS}", value)))

    def named(name: str, value: Any, depth: int) -> Any:
        if value is not None and _SECRET_NAME.fullmatch(_CAMEL.sub("_", name)):
            return STARS
        if isinstance(value, str) and _URL_NAME.fullmatch(name):
            value = value.split("?", 1)[0]  # a query may contain anything, including tokens and personal data
        return plain(value, depth)

    def plain(value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**64):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, str):
            return text(str(value))
        if isinstance(value, SecretStr | SecretBytes):
            return STARS
        if depth >= DEEPEST:
            return "…"
        if isinstance(value, Mapping):
            return {text(_shown(key)): named(_shown(key), item, depth + 1) for key, item in _first(value.items())}
        if isinstance(value, list | tuple | set | frozenset):
            return [plain(item, depth + 1) for item in _first(value)]
        return text(_shown(value))

    return lambda event: {text(_shown(key)): named(_shown(key), value, 0) for key, value in event.items()}


def _known(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Return one pattern for all secrets in each of their written forms, longest first."""
    forms = {
        form
        for secret in secrets
        if len(secret) >= SHORTEST_SECRET  # a shorter one may be an ordinary word, whose removal would garble the log
        for form in (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1], secret.strip())
    }
    return re.compile("|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))) if forms else None


def _first(items: Iterable[Any]) -> Iterable[Any]:
    return islice(items, MOST_ITEMS)


def _shown(value: object) -> str:
    try:
        if isinstance(value, bytes | bytearray):
            return bytes(value).decode("utf-8", "backslashreplace")
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 — whatever a foreign __str__ raises, the line is still written
        return f"<{type(value).__name__}>"
