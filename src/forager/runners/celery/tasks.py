"""The three Celery tasks. They carry references only, and each may be repeated without harm.

They are shared tasks: a team's own Celery application has them, too, as soon as it imports this module.
"""

from collections.abc import Mapping
from typing import Any

from celery import shared_task

from forager.core.pipeline import DEFAULT_QUEUE
from forager.runners.celery import child
from forager.runners.celery.names import FIRE, SUBMIT, WORK
from forager.runners.celery.shift import work_shift

_OPTIONS: Mapping[str, Any] = {"ignore_result": True, "acks_late": False, "max_retries": 0}


def _work(task: Any, queue: str | None = None) -> None:
    """A shift on the lanes of a queue: by default, of the queue that brought the message."""
    brought_by = (task.request.delivery_info or {}).get("routing_key") or DEFAULT_QUEUE
    child.current().run(lambda app: work_shift(app, queue or brought_by, child.STOP.is_set))


def _fire(name: str) -> None:
    """Fire a schedule if it is due. Each of its times creates one job, however often this is sent."""
    child.current().run(lambda app: app.fire(name))


def _submit(pipeline: str, params: Mapping[str, Any], key: str) -> str:
    """Create a job and return its id. `key` makes it safe to send twice: the second message finds the first job."""
    return str(child.current().run(lambda app: app.submit(pipeline, params, key=key)).job)


work = shared_task(name=WORK, bind=True, **_OPTIONS)(_work)
fire = shared_task(name=FIRE, **_OPTIONS)(_fire)
submit = shared_task(name=SUBMIT, **_OPTIONS)(_submit)
