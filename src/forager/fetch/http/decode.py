"""Decodes content codings piece by piece, so that a decompression bomb is stopped on its way.

Nothing here holds more than one piece beyond what the caller has taken, and no stage produces more than its cap.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli
import zstandard

from forager.core.errors import Permanent, Refused, Transient
from forager.core.states import ErrorType, Reason

PIECE = 256 * 1024
MAX_CHAIN = 2
MAX_MEMBERS = 1024  # a member of a block-wise gzip file holds 64 KiB: enough for 64 MiB, too few to waste a second
ZSTD_WINDOW = 8 * 1024 * 1024  # the maximum window size for this coding on the web
ZSTD_STEP = 128  # four bytes can stand for a block of 128 KiB, and the library has no way to stop: feed drops

PLAIN = frozenset(("", "identity", "none", "utf-8"))  # the last two occur in practice and mean nothing


class Coding(Protocol):
    """Decoder of one compressed member."""

    @property
    def ended(self) -> bool: ...

    @property
    def rest(self) -> bytes:
        """The bytes after the member, once it has ended."""
        ...

    def unpack(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces; ends with the member."""
        ...


class DecoderStage:
    """One coding of a chain: decodes its members one after the other, with a cap on the output."""

    def __init__(self, name: str, make: Callable[[], Coding], cap: int) -> None:
        self.name = name
        self._make = make
        self._coding = make()
        self._cap = cap
        self._out = 0
        self._members = 1
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._coding.ended and not self._next_member(data):
                return
            self._started = True
            for piece in self._pieces(data):
                self._out += len(piece)
                if self._out > self._cap:
                    raise too_big(self._cap)
                yield piece
            data = self._coding.rest if self._coding.ended else b""

    def finish(self) -> None:
        if self._started and not self._coding.ended:
            message = f"the answer broke off inside its {self.name} coding."
            raise Transient(message, maybe_done=True, reason=Reason.BROKEN_ANSWER)

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            yield from self._coding.unpack(data)
        except (zlib.error, brotli.error, zstandard.ZstdError, MemoryError):
            message = f"the answer is labelled as {self.name}-coded, but cannot be unpacked as such."
            raise Permanent(message, reason=Reason.BROKEN_ANSWER, error_type=ErrorType.PARSE) from None

    def _next_member(self, data: bytes) -> bool:
        """Start the next member. Anything else is padding and ignored, as gzip does."""
        if self.name not in ("gzip", "zstd") or data[:1] not in (b"\x1f", b"\x28", b"\x50"):
            return False
        self._members += 1
        if self._members > MAX_MEMBERS:
            message = f"the answer has more than {MAX_MEMBERS} compressed members, and was stopped."
            raise Refused(message, reason=Reason.TOO_LARGE)
        self._coding = self._make()
        return True


class Zlib:
    """gzip (one member) and deflate, the latter with or without its wrapper."""

    def __init__(self, wbits: int | None) -> None:
        self._wbits = wbits
        self._head = b""
        self._stream = zlib.decompressobj(wbits) if wbits else None

    @property
    def ended(self) -> bool:
        return self._stream is not None and self._stream.eof

    @property
    def rest(self) -> bytes:
        return self._stream.unused_data if self._stream else b""

    def unpack(self, data: bytes) -> Iterator[bytes]:
        stream = self._stream
        if stream is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, stream = self._head, zlib.decompressobj(_deflate_bits(self._head))
            self._stream = stream
        while True:
            if piece := stream.decompress(data, PIECE):
                yield piece
            data = stream.unconsumed_tail
            # After a full piece there may be more output although all input is consumed: call again without input.
            if stream.eof or (not data and len(piece) < PIECE):
                return


class Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    @property
    def ended(self) -> bool:
        return bool(self._stream.is_finished())

    @property
    def rest(self) -> bytes:
        return b""

    def unpack(self, data: bytes) -> Iterator[bytes]:
        while not self.ended:
            if piece := self._stream.process(data, output_buffer_limit=PIECE):
                yield piece
            data = b""
            if self._stream.can_accept_more_data():
                return


class Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
        self._rest = b""

    @property
    def ended(self) -> bool:
        return self._stream.eof

    @property
    def rest(self) -> bytes:
        return self._rest

    def unpack(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_STEP):
            if piece := self._stream.decompress(data[start : start + ZSTD_STEP]):
                yield piece
            if self._stream.eof:
                self._rest = self._stream.unused_data + data[start + ZSTD_STEP :]
                return


CODINGS: dict[str, tuple[str, Callable[[], Coding]]] = {
    "gzip": ("gzip", lambda: Zlib(16 + zlib.MAX_WBITS)),
    "x-gzip": ("gzip", lambda: Zlib(16 + zlib.MAX_WBITS)),
    "deflate": ("deflate", lambda: Zlib(None)),
    "br": ("brotli", Brotli),
    "zstd": ("zstd", Zstd),
}


def stages(content_encoding: str, cap: int) -> list[DecoderStage]:
    """Return the codings of an answer in decoding order: the last one applied comes first."""
    names = [name for part in content_encoding.lower().split(",") if (name := part.strip()) not in PLAIN]
    if len(names) > MAX_CHAIN:
        message = f"the answer is packed {len(names)} times over; {MAX_CHAIN} are accepted."
        raise Permanent(message, reason=Reason.BROKEN_ANSWER, error_type=ErrorType.PARSE)
    for name in names:
        if name not in CODINGS:
            message = f"the answer has a coding that was not requested ({name[:40]!r})."
            raise Permanent(message, reason=Reason.BROKEN_ANSWER, error_type=ErrorType.PARSE)
    return [DecoderStage(*CODINGS[name], cap) for name in reversed(names)]


def through(chain: list[DecoderStage], data: bytes) -> Iterator[bytes]:
    """Feed received bytes to a chain of stages. Yields pieces of the decoded body as they are produced.

    Also yields empty pieces for work without output, so that the caller can let other tasks run.
    """
    first, *others = chain
    for piece in first.feed(data):
        if others:
            yield b""
            yield from through(others, piece)
        else:
            yield piece


def too_big(cap: int) -> Refused:
    message = f"the answer is larger than its cap of {cap:,} bytes, and was stopped there."
    return Refused(message, reason=Reason.TOO_LARGE)


def _deflate_bits(head: bytes) -> int:
    """The coding called deflate has a zlib wrapper by its standard, and none from some servers."""
    wrapped = head[0] & 0x0F == 8 and int.from_bytes(head[:2], "big") % 31 == 0
    return zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS
