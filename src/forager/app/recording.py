"""Recordings of jobs: every answer that a job's steps get, written to WARC files in the data folder as it arrives.

An answer is in the file before the step continues, so a killed process loses none that a commit depends on. It must
never write a secret: no cookies, no header of a request but its type, no user and no secret parameter of a URL. The
fetcher has already removed a secret from an answer that repeats it.
"""

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import orjson
import structlog

from forager.core.errors import ForagerError
from forager.core.http import Request, Response
from forager.core.recording import RecordedTask, public_url, request_digest
from forager.sdk.warc import CapturedPage, WarcWriter
from forager.sdk.warc_read import read_records

FAILED = "application/x-forager-failure+json"
ANSWERED = "forager-answer"
TASK = "forager-task"
_LEFT_OUT = frozenset(
    "connection content-encoding content-length content-type keep-alive set-cookie set-cookie2"
    " transfer-encoding www-authenticate proxy-authenticate authorization strict-transport-security".split()
)
MOST_OPEN = 32
LOOK_EVERY = 3_600.0
PORTION = 8 << 20
"""Size of one portion of a recording in bytes. A portion is extended to the end of its last record."""

log = structlog.get_logger("forager.recording")

_Add = Callable[[WarcWriter], None]


def recordings_folder(home: Path) -> Path:
    return home / "recordings"


class FolderRecorder:
    """Implements `core.recording.Recorder`: a folder for each job, in it a file for each process and part."""

    def __init__(
        self, folder: Path, pipelines: Collection[str], *, keep_days: float, internal: Collection[str]
    ) -> None:
        """`pipelines`: names, or `all`. `internal`: pipelines that are never recorded, such as webhooks."""
        self._folder = folder
        self._pipelines = frozenset(pipelines)
        self._internal = frozenset(internal)
        self._keep = keep_days * 86_400
        self._files: OrderedDict[int, BinaryIO] = OrderedDict()
        self._lock = asyncio.Lock()
        self._looked_at = 0.0

    def takes(self, pipeline: str) -> bool:
        return (pipeline in self._pipelines or "all" in self._pipelines) and pipeline not in self._internal

    async def answered(self, task: RecordedTask, request: Request, response: Response) -> None:
        if request.sign is not None:
            return
        await self._write(task, lambda writer: writer.add(_captured(task, request, response)))

    async def failed(self, task: RecordedTask, request: Request, error: ForagerError) -> None:
        if request.sign is not None:
            return
        told = {
            **_named(task, request),
            "error": type(error).__name__,
            "message": error.message,
            "reason": error.reason,
            "error_type": str(error.error_type),
        }
        url, at = public_url(request.url), datetime.now(UTC)
        await self._write(task, lambda writer: writer.add_note("metadata", url, at, FAILED, orjson.dumps(told)))

    async def close(self) -> None:
        async with self._lock:
            for file in self._files.values():
                file.close()
            self._files.clear()

    async def _write(self, task: RecordedTask, add: _Add) -> None:
        async with self._lock:
            try:
                await asyncio.to_thread(self._append, task.job, add)
            except OSError as error:
                log.error("recording_failed", job=task.job, error=str(error))

    def _append(self, job: int, add: _Add) -> None:
        file = self._files.pop(job, None) or self._opened(job)
        self._files[job] = file
        while len(self._files) > MOST_OPEN:
            self._files.popitem(last=False)[1].close()
        add(WarcWriter(file, "", opens=False))
        file.flush()

    def _opened(self, job: int) -> BinaryIO:
        folder = self._folder / str(job)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove_old()
        return (folder / f"{time.time_ns():020d}-{os.getpid()}.warc.gz").open("xb")

    def _remove_old(self) -> None:
        now = time.time()
        if not self._keep or now - self._looked_at < LOOK_EVERY:
            return
        self._looked_at = now
        for folder in self._folder.iterdir():
            if folder.is_dir() and now - folder.stat().st_mtime > self._keep and not self._is_open(folder.name):
                for part in folder.iterdir():
                    if now - part.stat().st_mtime > self._keep:
                        part.unlink(missing_ok=True)
                if not any(folder.iterdir()):
                    folder.rmdir()

    def _is_open(self, name: str) -> bool:
        return name.isdigit() and int(name) in self._files


def read_portion(folder: Path, job: int, cursor: str | None) -> tuple[bytes, str | None]:
    """Return whole records of a job's recording from a cursor on, about `PORTION` bytes, and the next cursor. Both are
    empty if nothing is recorded."""
    parts = sorted((folder / str(job)).glob("*.warc.gz"))
    index, offset = (int(each) for each in cursor.split("-")) if cursor else (0, 0)
    if index >= len(parts):
        return b"", None
    until = offset
    with parts[index].open("rb") as file:
        file.seek(offset)
        for each in read_records(file):
            until = offset + each.offset + each.length
            if until - offset >= PORTION:
                break
        else:
            file.seek(offset)
            whole = file.read(until - offset)
            return whole, f"{index + 1}-0" if index + 1 < len(parts) else None
        file.seek(offset)
        return file.read(until - offset), f"{index}-{until}"


def _named(task: RecordedTask, request: Request) -> dict[str, object]:
    return {
        "task": task.name,
        "claim": task.claim,
        "request": request_digest(request),
        "anywhere": request_digest(request, with_host=False),
        "method": request.method,
    }


def _captured(task: RecordedTask, request: Request, response: Response) -> CapturedPage:
    told = {
        **_named(task, request),
        "url": public_url(response.url),
        "at": response.at.isoformat(),
        "elapsed_ms": response.elapsed_ms,
        "looks": response.looks,
        "rendered": response.rendered,
        "console": response.console,
        "type": _header(response.headers, "content-type"),
        "screenshot": response.screenshot is not None,
    }
    return CapturedPage(
        public_url(response.url) if request.method == "GET" else public_url(request.url),
        response.at,
        response.status,
        _header(response.headers, "content-type") or "",
        response.body,
        {ANSWERED: orjson.dumps(told).decode()},
        headers={name: value for name, value in response.headers.items() if name.lower() not in _LEFT_OUT},
        method=request.method.upper(),
        sent=request.body or b"",
        sent_type=_header(request.headers, "content-type") or "application/octet-stream",
        screenshot=response.screenshot,
    )


def _header(headers: Mapping[str, str], wanted: str) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == wanted), None)
