"""A change as it is read from the log: its body stays JSON until a reader asks for values.

Most sinks pass the body on as JSON. To decode every nested value, and to encode it again a moment later, would cost
almost as much as the reading itself.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from forager.core.change import Change


class StoredChange(Change):
    """A `Change` whose `body` is given as JSON text, as fields of which some are `orjson.Fragment`, or as None."""

    __slots__ = ("_stored", "_values")
    _stored: Any
    _values: Mapping[str, Any] | None

    @property
    def body(self) -> Mapping[str, Any] | None:
        """The whole value after the change, decoded when it is first read."""
        if self._values is None and self._stored is not None:
            self._values = _decoded(self._stored)
        return self._values

    @body.setter
    def body(self, stored: str | bytes | Mapping[str, Any] | None) -> None:
        self._stored, self._values = stored, None

    @property
    def json(self) -> Any:
        return orjson.Fragment(self._stored) if isinstance(self._stored, str | bytes) else self._stored

    @property
    def fields(self) -> Mapping[str, Any] | None:
        return self.body if isinstance(self._stored, str | bytes) else self._stored


def _decoded(stored: str | bytes | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(stored, str | bytes):
        decoded: dict[str, Any] = orjson.loads(stored)
        return decoded
    return {name: _value(part) for name, part in stored.items()}


def _value(part: Any) -> Any:
    return orjson.loads(orjson.dumps(part)) if isinstance(part, orjson.Fragment) else part
