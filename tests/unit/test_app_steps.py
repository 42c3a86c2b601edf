"""App steps: declared by a pipeline, bound to their functions once the application is open (decision 0052)."""

from typing import Any, ClassVar

import pytest

from forager.app.config import new_settings
from forager.app.features import FEATURES
from forager.app.wiring import build_pipelines
from forager.core.errors import Unconfigured
from forager.core.http import Fetch
from forager.core.outcome import Done, Outcome
from forager.core.pipeline import Pipeline, StepTable, app_step, step
from forager.core.task import Task


class Look(Task):
    kind: ClassVar[str] = "look"


class Plain(Task):
    kind: ClassVar[str] = "plain"


async def looked(task: Task, fetch: Fetch) -> Outcome:
    return Done(cost=7)


async def plain(task: Task, fetch: Fetch) -> Outcome:
    return Done(cost=1)


def table() -> StepTable:
    return StepTable([Pipeline("p", Look, lambda _: (), (app_step(Look, timeout=5.0), step(Plain, plain)))])


async def test_an_app_step_has_its_function_from_the_application_and_its_options_from_the_pipeline() -> None:
    steps = table()
    nothing: Any = None
    unbound = steps.get("look")
    assert unbound is not None
    with pytest.raises(Unconfigured, match="has no `app_steps`"):
        await unbound.run(Look(), nothing)
    steps.bind({"look": looked})
    bound = steps.get("look")
    assert bound is not None
    assert (await bound.run(Look(), nothing), bound.timeout) == (Done(cost=7), 5.0)


def test_a_function_for_an_unknown_kind_of_task_is_rejected() -> None:
    with pytest.raises(ValueError, match="no pipeline has a step of that kind"):
        table().bind({"listen": looked})


async def test_a_plain_step_cannot_be_replaced() -> None:
    steps = table()
    nothing: Any = None
    with pytest.raises(ValueError, match="not declared with `app_step`"):
        steps.bind({"plain": looked})
    kept = steps.get("plain")
    assert kept is not None
    assert await kept.run(Plain(), nothing) == Done(cost=1)


def test_every_app_step_that_ships_is_bound() -> None:
    bound = {each.name: each.app_steps is not None for each in FEATURES}
    for pipeline in build_pipelines(new_settings(), FEATURES):
        unbound = [each for each in pipeline.steps if each.run is app_step(Look).run]
        assert bool(unbound) == bound.get(pipeline.name, False), pipeline.name
