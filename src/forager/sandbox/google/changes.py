"""What happens to reviews while they are read: edits, deletions, new ones, replies. Lies over the seeded world.

Memory is needed only for locations that changed.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True)
class LocationChanges:
    """The changes of one location. Numbers of added reviews are negative."""

    moved: list[int] = field(default_factory=list)
    """Added and edited reviews, the latest last: in the order of `updateTime` they come first, in reverse."""
    times: dict[int, datetime] = field(default_factory=dict)
    edits: dict[int, int] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    added: int = 0
    replies: dict[int, tuple[str, datetime] | None] = field(default_factory=dict)

    def order(self, count: int) -> list[int]:
        """The numbers of all living reviews, the last updated first."""
        top = set(self.moved)
        rest = [number for number in range(count) if number not in self.deleted and number not in top]
        return [*reversed(self.moved), *rest]

    def add(self, now: datetime) -> int:
        self.added += 1
        self.times[-self.added] = now
        self.moved.append(-self.added)
        return -self.added

    def edit(self, number: int, now: datetime) -> None:
        """Change a review's text and stars; it moves to the top."""
        if number in self.moved:
            self.moved.remove(number)
        self.moved.append(number)
        self.times[number] = now
        self.edits[number] = self.edits.get(number, 0) + 1

    def delete(self, number: int) -> None:
        self.deleted.add(number)
        if number in self.moved:
            self.moved.remove(number)


@dataclass
class Changes:
    """The changes of all locations, by tenant and location."""

    _of: dict[tuple[str, int], LocationChanges] = field(default_factory=dict)

    def get(self, tenant: str, location: int) -> LocationChanges | None:
        """The changes of a location; None if it is as it was made."""
        return self._of.get((tenant, location))

    def of(self, tenant: str, location: int) -> LocationChanges:
        """The changes of a location that is about to change."""
        return self._of.setdefault((tenant, location), LocationChanges())
