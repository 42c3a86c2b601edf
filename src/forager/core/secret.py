"""Texts that must not be shown, and the port that encrypts them at rest. Nothing here does I/O."""

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that prints as `***` wherever it is shown. `reveal` is for the moment of sending, and for nothing else."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not pickled: it would leave the process in plain text.")
