"""Applicant tracking systems and job boards, with their names for the parts of a posting. Pure; a new one is an entry
of `data/applicant_systems.toml`.

The keys are those of a system's own JSON; a path such as `location.name` goes through mappings and into the first entry
of a list. `css` has the selectors of its pages. Both are used wherever they fit: many employers show a system's pages
under an address of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forager.extract.tables import table

_DATA = table("applicant_systems")


@dataclass(frozen=True, slots=True)
class System:
    name: str
    keys: frozenset[str] = frozenset()
    """Keys that every posting of it has in JSON, and none of another system. Empty: it has no JSON of its own."""
    title: tuple[str, ...] = ()
    company: tuple[str, ...] = ()
    place: tuple[str, ...] = ()
    pay: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Each is one path, or several with `+` whose texts belong together."""
    css: Mapping[str, str] = field(default_factory=dict)
    """Selectors of its pages, by field of the result."""
    hosts: tuple[str, ...] = ()
    """Domains that belong to the system and never to an employer."""
    employer: str | None = None
    """A pattern for addresses of postings, whose first group is the employer's short name."""


def _system(**entry: Any) -> System:
    lists = {name: tuple(value) for name, value in entry.items() if isinstance(value, list)}
    return System(**entry | lists | {"keys": frozenset(entry.get("keys", ()))})


SYSTEMS: tuple[System, ...] = tuple(_system(**entry) for entry in _DATA["system"])
BOARDS = frozenset(_DATA["boards"].split()) | {system.name.casefold() for system in SYSTEMS}
"""Names of systems and boards: none of them is the employer, unless structured data has it so."""
