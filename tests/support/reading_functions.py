"""Functions for a process that reads pages: good ones, slow ones, and those that take the process along."""

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from pydantic import BaseModel

from forager.core.reading import care
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFound, PageInput

Deadly = Callable[..., Any]


def length(page: bytes) -> int:
    return len(page)


def process(_: bytes = b"") -> int:
    return os.getpid()


def environment(_: bytes = b"") -> dict[str, str]:
    return dict(os.environ)


def spin(_: bytes, seconds: float) -> str:
    """Uses CPU time, as a parser does."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "done"


def sleep(_: bytes, seconds: float) -> str:
    time.sleep(seconds)
    return "done"


def crash(_: bytes = b"", number: int = signal.SIGSEGV) -> NoReturn:
    os.kill(os.getpid(), number)
    time.sleep(10)
    raise AssertionError("a dead process goes on")


def leave(_: bytes, code: int) -> NoReturn:
    os._exit(code)


def hog(_: bytes, size: int) -> int:
    return len(bytearray(size))


def chatter(_: bytes, words: str) -> str:
    sys.stdout.write(words * 1_000)
    sys.stdout.flush()
    os.write(1, words.encode())
    return words


class Odd(Exception):
    """It can be pickled, and not be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def fail(_: bytes, kind: str) -> NoReturn:
    if kind == "odd":
        raise Odd("a", "b")
    raise ValueError(kind)


class Numbers(BaseModel):
    words: int | None = None
    process: int | None = None


def parse_or_die(page: PageInput, wanted: frozenset[str]) -> Extracted:
    """An extractor's reading that some pages kill, and others hold up."""
    html = str(page.html)
    if "kill me" in html:
        crash()
    if "hold me" in html:
        spin(b"", 60.0)
    found = {"words": html.count("word"), "process": os.getpid()}
    return Extracted({name: FieldFound(value, "text", 1.0) for name, value in found.items() if name in wanted})


NUMBERS = Extractor("numbers", Numbers, (), parse_or_die)


def digest(page: bytes) -> str:
    return hashlib.sha256(page).hexdigest()


def wrong_type(_: bytes) -> int:
    return "no number"  # type: ignore[return-value]


def half_a_character(_: bytes) -> list[str]:
    return ["a\ud800"]


def careless(page: bytes) -> bool:
    """Takes forever unless the page is made harmless first."""
    if not care.is_needed:
        spin(page, 60.0)
    return care.is_needed
