"""Steps that need the application: their functions are given once it is there."""

from typing import Any, ClassVar

import pytest

from forager.config import new_settings
from forager.core.errors import Unconfigured
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Pipeline, duty
from forager.core.task import Task
from forager.engine.step_table import StepTable
from forager.features import FEATURES
from forager.wiring import build_pipelines


class Look(Task):
    kind: ClassVar[str] = "look"


async def looked(task: Look, fetch: Fetch) -> Outcome:
    return Done(cost=7)


def table() -> StepTable:
    return StepTable([Pipeline("p", Look, lambda _: (), (duty(Look, timeout=5.0),))])


async def test_a_duty_has_its_function_from_the_application_and_its_options_from_the_pipeline() -> None:
    steps = table()
    nothing: Any = None
    unbound = steps.get("look")
    assert unbound is not None
    with pytest.raises(Unconfigured, match="names no `duties`"):
        await unbound.run(Look(), nothing)
    steps.perform({"look": looked})
    step = steps.get("look")
    assert step is not None
    assert (await step.run(Look(), nothing), step.timeout) == (Done(cost=7), 5.0)


def test_a_duty_without_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="no pipeline has a step"):
        table().perform({"listen": looked})


def test_every_duty_of_the_pipelines_that_ship_is_given() -> None:
    given = {each.name: each.duties is not None for each in FEATURES}
    for pipeline in build_pipelines(new_settings(), FEATURES):
        unbound = [step for step in pipeline.steps if step.run is duty(Look).run]
        assert bool(unbound) == given.get(pipeline.name, False), pipeline.name
