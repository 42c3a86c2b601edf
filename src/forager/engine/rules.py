"""The port for a lane's rules. They come from pipelines, the policy file and operators, and can change at any time."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from forager.core.hosts import host_of
from forager.core.pipeline import Lane, Pipeline, family


class LaneRules(Protocol):
    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        """Return the rules in force for a lane that these pipelines use; None if the pipelines are not known."""
        ...

    def lane_name(self, url: str) -> str:
        """Return the name of the lane that a URL belongs to."""
        ...


class DeclaredLanes:
    """Uses only the lanes that pipelines declare. A lane that none declares has modest limits."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._declared = {lane.name: lane for pipeline in pipelines for lane in pipeline.lanes}

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        declared = self._declared.get(name) or self._declared.get(family(name))
        return replace(declared, name=name) if declared else Lane(name)

    def lane_name(self, url: str) -> str:
        return host_of(url)
