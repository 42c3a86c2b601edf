"""The log: JSON lines on stderr, or readable lines on a terminal, for our own events and those of libraries.

A line never contains a secret, is at most 16 KB long, and is always one line, so that remote content cannot forge
another. Get a logger with `structlog.get_logger("forager.…")`; bind `request_id` and the like with `bound_contextvars`.
"""

import json
import logging
import re
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

import structlog
from structlog.types import EventDict, Processor

from forager.logs.redaction import redaction

LONGEST_LINE = 16 * 1024
# Characters that can end a line or move the cursor: C0 and C1 controls, line separators, and bidirectional overrides.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# The fields that an oversized line keeps.
_HEAD = ("timestamp", "level", "logger", "request_id", "event", "exception")
# At INFO, these libraries repeat our own lines: every request, with its whole URL, and the server's start and stop.
_TALKATIVE = ("httpx", "httpcore", "aiohttp.access", "uvicorn.access", "uvicorn.error", "asyncio", "alembic")
# While PostgreSQL is away, its driver warns of every attempt to connect, with a traceback; our own line says it once.
_REPETITIVE = "asyncpg.pool"


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
            line,
        ],
    )
    _install(_Lines(out), formatter, level)


def _with_request_id(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Add `request_id` to every line; null if no request caused the line."""
    event.setdefault("request_id", None)
    return event


class _Lines(logging.StreamHandler[TextIO]):
    """Our own handler class, so that a second call can find and replace it."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 — the library's name
        """Report the failure without the record: the standard implementation would print its arguments, including
        secrets."""
        lost = {"level": "error", "event": "a log line could not be written", "logger": record.name}
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
    """Truncate in the middle, because the end of a traceback tells what happened. A character may need six bytes."""
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
