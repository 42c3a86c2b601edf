"""The log: JSON lines on stderr, or readable lines on a terminal, for our own events and those of libraries.

A line never contains a secret, is at most 16 KB long, and is always one line, so that remote content cannot forge
another. Get a logger with `structlog.get_logger("forager.…")`; bind `request_id` and the like with `bound_contextvars`.
"""

import json
import logging
import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Literal, TextIO
from urllib.parse import quote, quote_plus

import structlog
from pydantic import SecretBytes, SecretStr
from structlog.types import EventDict, Processor

# Removes secrets from log events, and converts every value to plain data of bounded depth.
#
# There are three independent checks, because none is complete: the name of a field, the known secrets anywhere in a
# text, and the usual forms of credentials (bearer tokens, passwords in URLs, `api_key=…`). It never raises, because
# logging must not break its caller.


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


LONGEST_LINE = 16 * 1024
# Characters that can end a line or move the cursor: C0 and C1 controls, line separators, and bidirectional overrides.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# The fields that an oversized line keeps.
_HEAD = ("timestamp", "level", "logger", "request_id", "event", "exception")
# At INFO, these libraries repeat our own lines: every request, with its whole URL, and the server's start and stop.
_TALKATIVE = ("httpx", "httpcore", "aiohttp.access", "uvicorn.access", "uvicorn.error", "asyncio", "alembic")
# While PostgreSQL is away, its driver warns of every attempt to connect, with a traceback; our own line appears once.
_REPETITIVE = "asyncpg.pool"


MOST_REMEMBERED = 500
_recent: deque[Mapping[str, Any]] = deque(maxlen=MOST_REMEMBERED)
# The newest lines of this process, for the log tail of the dashboard. There is one of it in a process, as
# there is one set of handlers. A line enters after its secrets are removed.


def recent_lines() -> list[Mapping[str, Any]]:
    """Return the newest log lines of this process, oldest first, at most `MOST_REMEMBERED`. Secrets are removed."""
    return [_fitted(dict(each)) for each in list(_recent)]


def _remembered(_logger: Any, _method: str, event: EventDict) -> EventDict:
    _recent.append(dict(event))
    for watch in _watchers:
        watch(event)
    return event


_watchers: list[Callable[[Mapping[str, Any]], None]] = []


def watch_lines(watch: Callable[[Mapping[str, Any]], None]) -> Callable[[], None]:
    """Call `watch` with every line that is logged from now on, without its secrets. It must not raise or log. Returns
    the function that ends this."""
    _watchers.append(watch)
    return lambda: _watchers.remove(watch)


def configure_logs(
    level: str = "INFO",
    format: Literal["auto", "json", "console"] = "auto",  # noqa: A002 — the setting's own word
    secrets: Iterable[str] = (),
    *,
    stream: TextIO | None = None,
) -> None:
    """Configure logging; call it once at the start of a process. A later call replaces the configuration. `secrets` are
    values that no line may contain."""
    out = sys.stderr if stream is None else stream
    console = format == "console" or (format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_request_id,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    clean = redaction(secrets)
    line = _ConsoleLine(colors=out.isatty()) if console else _json_line
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            lambda _logger, _method, event: clean(event),
            _remembered,
            line,
        ],
    )
    _install(_Lines(out), formatter, level)


def quiet_logs(*, debug: bool, settings: Any = None) -> None:
    """Log nothing below CRITICAL: a command prints its own messages. With `debug`, log everything; and if the settings
    name a level, use that level."""
    if not debug and settings is not None and "log_level" in settings.model_fields_set:
        configure_logs(settings.log_level, settings.log_format, settings.secrets())
    else:
        configure_logs("DEBUG" if debug else "CRITICAL")


def _with_request_id(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add `request_id` to every line; null if no request caused the line."""
    event.setdefault("request_id", None)
    return event


class _Lines(logging.StreamHandler[TextIO]):
    """Our own handler class, so that a second call can find and replace it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 — the library's name
        """Report the failure without the record: the standard implementation would print its arguments, including
        secrets."""
        lost = {"level": "error", "event": "log_line_lost", "logger": record.name}
        try:
            self.stream.write(f"{_dumped(lost)}\n")
        except (OSError, ValueError):
            return  # stderr is closed or full: the failure cannot be reported


def _install(lines: _Lines, formatter: logging.Formatter, level: str) -> None:
    root = logging.getLogger()
    for former in [handler for handler in root.handlers if isinstance(handler, _Lines)]:
        root.removeHandler(former)
    lines.setFormatter(formatter)
    root.addHandler(lines)
    root.setLevel(level)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    logging.getLogger(_REPETITIVE).setLevel(logging.ERROR)
    logging.captureWarnings(True)


def _json_line(_logger: Any, _method: str, event: EventDict) -> str:
    """Encode as ASCII JSON, which escapes every control character and separator."""
    return _dumped(_fitted(event))


class _ConsoleLine:
    """Formats a line for a terminal, with colours. A traceback is indented below its line, so that it never looks like
    one."""

    def __init__(self, *, colors: bool) -> None:
        self._render = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)

    def __call__(self, logger: Any, method: str, event: EventDict) -> str:
        known = {key: value for key, value in event.items() if key != "request_id" or value is not None}
        fitted = {_escaped(key): self._value(key, value) for key, value in _fitted(known).items()}
        return str(self._render(logger, method, fitted))[:LONGEST_LINE]

    @staticmethod
    def _value(key: str, value: Any) -> Any:
        if key in ("exception", "stack") and isinstance(value, str):
            return "\n".join(f"    {_escaped(line)}" for line in value.split("\n"))
        return _escaped(value if isinstance(value, str) else json.dumps(value))


def _fitted(event: EventDict) -> EventDict:
    """Return the event if it fits into a line; else with long values truncated; else only its essential fields."""
    length = len(_dumped(event))
    if length < LONGEST_LINE:
        return event
    for most in (4_000, 1_000, 200):
        cut = {key: _cut(value, most) for key, value in event.items()} | {"cut_from": length}
        if len(_dumped(cut)) < LONGEST_LINE:
            return cut
    return {key: _cut(event[key], 200) for key in _HEAD if key in event} | {"cut_from": length}


def _cut(value: Any, most: int) -> Any:
    """Truncate in the middle, because the end of a traceback has the error. A character may need six bytes."""
    text = value if isinstance(value, str) else _dumped(value)
    if len(_dumped(text)) <= most:
        return value
    half = most // 12
    if text.isascii() and text.isprintable():
        half = most // 2
    return f"{text[:half]} … {text[-half:]}"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode("ascii"), text)


# The log: JSON lines for machines, readable lines for a terminal, secrets removed from both.


__all__ = ["configure_logs"]
