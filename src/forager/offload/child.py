"""The process that reads pages: `python -m forager.offload.child`. It does what its parent sends, one thing at a time.

Messages are pickles behind their length, in both directions. It ends when its parent does. A page that takes too long
is ended by the system (SIGXCPU), and one that takes too much memory by a `MemoryError`: nothing here has to notice.
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
    os.dup2(2, 1)  # what a parser prints must not get between our answers
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    while (message := _read(messages)) is not None:
        answer = _answer(message, answers)
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


def _answer(message: bytes, answers: BinaryIO) -> bytes:
    """`(True, result)`, or `(False, error)`. Before, an empty message tells that the work has begun: the first one may
    have to import half of the program, which is no part of it."""
    try:
        try:
            work, args, limit = pickle.loads(message)  # noqa: S301 - from our own parent
        finally:
            answers.write(LENGTH.pack(0))
            answers.flush()
        # Whole seconds of CPU time of the whole process: the limit moves with what was used before.
        soft = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
        return pickle.dumps((True, work(*args)))
    except MemoryError:
        return pickle.dumps((False, TOO_BIG))
    except BaseException as error:  # noqa: BLE001 - it belongs to the step that sent the work
        return _failure(error)


def _failure(error: BaseException) -> bytes:
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)  # noqa: S301 - some errors can be packed, but not unpacked
    except Exception:  # noqa: BLE001 - whatever such an error raises
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
    return packed


def _read(stream: BinaryIO) -> bytes | None:
    """The next message; None if the parent is gone."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    size: Any = LENGTH.unpack(head)[0]
    body = stream.read(size)
    return body if len(body) == size else None


if __name__ == "__main__":
    main(int(sys.argv[1]))
