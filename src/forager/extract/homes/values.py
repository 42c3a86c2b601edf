"""What was read of a home so far."""

from dataclasses import dataclass, field
from typing import Any

from forager.extract.page_kind import PageKind


@dataclass(slots=True)
class Home:
    """Values by field, each with its source and confidence. The first value of a field holds."""

    kind: PageKind = "item"
    values: dict[str, tuple[Any, str, float]] = field(default_factory=dict)
    has_home_label: bool = False
    """Whether the label of the price stands only on pages of homes: `Kaltmiete`, `asking price`."""

    def add(self, name: str, value: Any, source: str, confidence: float) -> None:
        if value not in (None, "") and name not in self.values:
            self.values[name] = (value, source, confidence)

    def get(self, name: str) -> Any:
        return self.values[name][0] if name in self.values else None

    def source(self, name: str) -> str | None:
        return self.values[name][1] if name in self.values else None
