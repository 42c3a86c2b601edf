"""The part of aliases that both ledgers share. Pure; each ledger has its own SQL."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Names:
    """The aliases of one identity."""

    stronger: dict[str, str] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    """Keys whose row was renamed from a weaker key: that is a change, whatever else the answer contains."""

    @classmethod
    def said(cls, says: Mapping[str, str]) -> "Names":
        """Resolve chains of aliases. `says` maps each key to the next stronger one, which may itself be an alias."""
        return cls({name: _strongest(name, says) for name in says})


NO_NAMES = Names()


def _strongest(name: str, says: Mapping[str, str]) -> str:
    passed = {name}
    while name in says and says[name] not in passed:
        name = says[name]
        passed.add(name)
    return name
