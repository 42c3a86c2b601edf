"""Which rules hold for a lane: a port, because files and operators say it too, and may say otherwise tomorrow."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from forager.core.hosts import host_of
from forager.core.pipeline import Lane, Pipeline, family


class LaneRules(Protocol):
    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        """The rules that hold now for the pipelines that use the lane; None: it is not known which do."""
        ...

    def lane_name(self, url: str) -> str:
        """The lane that a URL belongs to."""
        ...


class DeclaredLanes:
    """Only what the pipelines themselves declare; a lane that none declares has modest limits."""

    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._declared = {lane.name: lane for pipeline in pipelines for lane in pipeline.lanes}

    def lane_for(self, name: str, used_by: Collection[str] | None = None) -> Lane:
        declared = self._declared.get(name) or self._declared.get(family(name))
        return replace(declared, name=name) if declared else Lane(name)

    def lane_name(self, url: str) -> str:
        return host_of(url)
