"""The steps of all pipelines, by the kind of task that they perform."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forager.core.pipeline import Pipeline, Step, StepFunction

UNKNOWN = ""


class StepTable:
    def __init__(self, pipelines: Sequence[Pipeline]) -> None:
        self._steps: dict[str, Step] = {}
        self._pipelines: dict[str, str] = {}
        for pipeline in pipelines:
            for step in pipeline.steps:
                for kind in (step.task.kind, *step.task.aliases):
                    self._steps[kind], self._pipelines[kind] = step, pipeline.name
        self.fail_fast = any(step.when_open == "fail" for step in self._steps.values())
        """Whether some tasks fail at once, instead of waiting, when the breaker of their lane is open."""
        self.skippers = frozenset(self._pipelines[kind] for kind, s in self._steps.items() if s.when_capped == "skip")
        """Pipelines with tasks that are skipped, instead of waiting, when a cap of their lane is reached."""

    def get(self, kind: str) -> Step | None:
        return self._steps.get(kind)

    def perform(self, duties: Mapping[str, StepFunction]) -> None:
        """Give steps their functions, by the kind of their tasks. Raises `ValueError` for a kind without a step."""
        for kind, run in duties.items():
            if kind not in self._steps:
                raise ValueError(f"A duty is given for tasks of kind {kind!r}, but no pipeline has a step for them.")
            self._steps[kind] = replace(self._steps[kind], run=run)

    def pipeline_of(self, kind: str) -> str:
        return self._pipelines.get(kind, UNKNOWN)
