"""By which names a thing is known: the part of aliases that both ledgers share. Pure; the SQL is each ledger's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Names:
    """Of the things of one identity."""

    stronger: dict[str, str] = field(default_factory=dict)
    renamed: set[str] = field(default_factory=set)
    """Keys whose row stood under a weaker name until now: that is a change, whatever else the answer says."""

    @classmethod
    def said(cls, says: Mapping[str, str]) -> "Names":
        """`says`: the next stronger name of each; one may lead to another, and that to a third."""
        return cls({name: _strongest(name, says) for name in says})


NO_NAMES = Names()


def _strongest(name: str, says: Mapping[str, str]) -> str:
    passed = {name}
    while name in says and says[name] not in passed:
        name = says[name]
        passed.add(name)
    return name
