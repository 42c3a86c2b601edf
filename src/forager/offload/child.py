"""The child process that parses pages: `python -m forager.offload.child`. It runs the calls of its parent one at a
time.

Messages in both directions are pickles with a length prefix. The process ends with its parent. The system kills it when
a page takes too long (SIGXCPU); a page that needs too much memory raises `MemoryError`.
"""

import math
import os
import pickle
import resource
import struct
import sys
import time
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")
TOO_BIG = "MemoryError"


def main(memory: int) -> None:
    messages, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a parser's own output must not mix with our answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    while (message := _read(messages)) is not None:
        answer = _answer(message, answers)
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


def _answer(message: bytes, answers: BinaryIO) -> bytes:
    """Return `(True, result)` or `(False, error)`. Before that, an empty message reports that the work has begun, so
    that importing modules for the first call does not count towards its limit."""
    try:
        try:
            work, args, limit = pickle.loads(message)  # noqa: S301 - from our own parent
        finally:
            answers.write(LENGTH.pack(0))
            answers.flush()
        # The limit is in whole seconds of the process's total CPU time, so it is set relative to what was used before.
        soft = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        return pickle.dumps((True, work(*args)))
    except MemoryError:
        return pickle.dumps((False, TOO_BIG))
    except BaseException as error:  # noqa: BLE001 - it is raised in the step that sent the work
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - some errors can be packed, but not unpacked
    except Exception:  # noqa: BLE001 - whatever such an error raises
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return packed


def _read(stream: BinaryIO) -> bytes | None:
    """Return the next message; None if the parent has ended."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    size: Any = LENGTH.unpack(head)[0]
    body = stream.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
