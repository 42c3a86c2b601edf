"""What a watch requires of its records' table: a due time that is written quietly and found by a partial index."""

from collections.abc import Sequence
from datetime import datetime

from forager.core.errors import Rejected
from forager.core.pipeline import Pipeline
from forager.core.watch import Watch
from forager.kit.queries import bare_type, columns_of


def check_watches(pipelines: Sequence[Pipeline]) -> None:
    """Raise `Rejected` for a watch whose records cannot be found by their due time, or whose name is taken."""
    names: set[str] = set()
    for pipeline in pipelines:
        for watch in pipeline.watches:
            if watch.name in names:
                raise Rejected(f"Two watches are called {watch.name!r}. Give one of them another `name`.")
            names.add(watch.name)
            _check(pipeline, watch)


def _check(pipeline: Pipeline, watch: Watch) -> None:
    record, due = watch.record, watch.due
    subject = f"The watch {watch.name!r} of {pipeline.name}"
    if record not in pipeline.records:
        raise Rejected(f"{subject} watches {record.__name__}, which is not a record of this pipeline.")
    info = record.model_fields.get(due)
    is_time = info is not None and bare_type(info.annotation) is datetime and columns_of(record)[due].nullable
    if not is_time or due not in record.quiet:
        raise Rejected(f"{subject} needs {record.__name__}.{due} as a quiet field of type `datetime | Clear | None`.")
    if watch.by is not None and watch.by not in record.model_fields:
        raise Rejected(f"{subject} has a job for each {watch.by!r}, which is not a field of {record.__name__}.")
    if not any(index.names[0] == due and index.where == watch.condition for index in record.indexes):
        raise Rejected(f'{subject} needs Index(("{due}",), where="{watch.condition}") on {record.__name__}.')
