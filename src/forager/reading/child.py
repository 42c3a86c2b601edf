"""A reader: the process that parses pages, forked by `reading.server`. It reads one page after the other, in the order
in which they arrive, and answers each before it begins the next, so that its parent always has the page in hand on
record.

A page comes as a pickled call (from our own parent) and its bytes. The answer is JSON: a reader has seen hostile pages,
so nothing that it sends is unpickled. The system ends the process when a page uses up its CPU time (SIGPROF); a page
that needs too much memory raises `MemoryError`. The process ends with its parent.
"""

import io
import os
import pickle
import resource
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any

import orjson
from pydantic_core import PydanticSerializationError

from forager.core.reading import care, result_of

CALL = struct.Struct("<IQd?")
"""Bytes of the pickled call, bytes of the page, CPU seconds, and whether the page is to be read with care."""
ANSWER = struct.Struct("<Ic")
"""Bytes of the answer, and its kind."""
READY, RESULT, ERROR, TOO_BIG, LAST = b"R", b"A", b"E", b"M", b"L"
"""`LAST` follows an answer if the reader ends now, to give back memory; pages behind it must be sent to another one."""
HEAVY_PAGE = 1024 * 1024
"""Bytes of a page, from which a reader looks at the memory that it has kept."""
MOST_KEPT = 256 * 1024 * 1024
"""Resident bytes that a reader may keep after a page."""
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")


def serve(channel: socket.socket, memory: int) -> None:
    """Read pages until the parent closes the channel. `memory`: bytes that a page may take."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bound = _memory(0) + memory
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    pages = io.BufferedReader(socket.SocketIO(channel, "r"), 256 * 1024)
    _send(channel, READY, str(os.getpid()).encode())
    while len(head := pages.read(CALL.size)) == CALL.size:
        size, length, limit, care.is_needed = CALL.unpack(head)
        call, page = pages.read(size), pages.read(length)
        if len(page) < length:
            return
        kind, answer = _read(call, page, limit)
        _send(channel, kind, answer)
        if kind == TOO_BIG or (max(length, len(answer)) > HEAVY_PAGE and _memory(1) > MOST_KEPT):
            _send(channel, LAST, b"")
            return


def _read(call: bytes, page: bytes, limit: float) -> tuple[bytes, bytes]:
    try:
        # Before the timer starts: the first call of a function imports its module.
        work, args = pickle.loads(call)  # noqa: S301 - from our own parent
        signal.setitimer(signal.ITIMER_PROF, limit)
        return RESULT, _written(work, work(page, *args))
    except MemoryError:
        return TOO_BIG, b""
    except Exception as error:  # noqa: BLE001 - it is raised in the step that sent the page
        return ERROR, f"{type(error).__name__}: {error}".encode("utf-8", "replace")[:10_000]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _written(work: Callable[..., Any], result: Any) -> bytes:
    declared = result_of(work)
    try:
        return declared.dump_json(result, warnings=False)
    except (PydanticSerializationError, UnicodeEncodeError):
        # JSON in a page can have halves of a character (a lone surrogate), which no text may hold.
        return orjson.dumps(_whole(declared.dump_python(result, warnings=False)), default=str)


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole(name): _whole(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_whole(each) for each in value]
    return value


def _send(channel: socket.socket, kind: bytes, answer: bytes) -> None:
    channel.sendall(ANSWER.pack(len(answer), kind) + answer)


def _memory(column: int) -> int:
    """Return the bytes of this process: address space (0) or resident (1). 0 if the system does not report them."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - once a page
            return int(file.read().split()[column]) * _PAGE_SIZE
    except OSError:
        return 0
