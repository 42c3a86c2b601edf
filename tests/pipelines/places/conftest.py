"""Recorded answers, and a fetch that gives one of them back: `Fetch` is the only thing that a step can touch."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from forager.core.http import Request, Response

HERE = Path(__file__).parent
AT = datetime(2026, 3, 4, 9, 0, 0, tzinfo=UTC)


class Answer:
    """Returns the same response to every request, and records the requests."""

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.body = body
        self.status = status
        self.headers = {"Content-Type": "application/json"} if headers is None else headers
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(request.url, self.status, self.headers, self.body, at=AT, elapsed_ms=412)


Recorded = Callable[[str], Answer]
Refusal = Callable[..., Answer]
Rows = Callable[..., Answer]


@pytest.fixture
def recorded() -> Recorded:
    """The recorded answer of a case, by the name of its directory."""
    return lambda case: Answer((HERE / case / "answer.json").read_bytes())


@pytest.fixture
def refusal() -> Refusal:
    """An error in Serper's own envelope."""

    def of(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
        return Answer(orjson.dumps({"message": message, "statusCode": status}), status, headers)

    return of


@pytest.fixture
def rows() -> Rows:
    """Returns a page with the given number of plain rows."""

    def of(count: int, **more: Any) -> Answer:
        places = [{"position": n, "title": f"Place {n}", "cid": str(1000 + n)} for n in range(1, count + 1)]
        return Answer(json.dumps({"places": places, "credits": 1, **more}).encode())

    return of
