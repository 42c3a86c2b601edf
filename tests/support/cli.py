"""The command line in this process: what a command printed and how it ended. Its fixture: tests/unit/conftest.py."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def all(self) -> str:
        return self.out + self.err


Forager = Callable[..., Ran]
