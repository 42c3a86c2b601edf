"""The log as it is written in earnest, for the time of a test: afterwards nothing of it is left in the process."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO, TypeVar

import structlog

from forager.logging import _Lines, configure_logs

Stream = TypeVar("Stream", bound=TextIO)
Form = Literal["auto", "json", "console"]


@contextmanager
def logging_to(
    stream: Stream, level: str = "DEBUG", form: Form = "json", secrets: Sequence[str] = ()
) -> Iterator[Stream]:
    before = logging.root.level
    configure_logs(level, form, secrets, stream=stream)
    try:
        yield stream
    finally:
        logging.root.handlers[:] = [each for each in logging.root.handlers if not isinstance(each, _Lines)]
        logging.root.setLevel(before)
        logging.captureWarnings(False)
        structlog.contextvars.clear_contextvars()
        structlog.reset_defaults()
