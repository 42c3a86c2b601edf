"""The filter `pipeline` of lists: a name that cannot match is refused with the names that can."""

from forager.app import App
from forager.core.errors import FieldError, Rejected
from forager.core.names import unknown_choice


async def check_pipeline(app: App, name: str | None) -> None:
    """Raise `Rejected` unless the name belongs to a pipeline, or to stored jobs of one that is no longer installed."""
    if name is None or name in app.pipelines or (await app.reports.jobs(pipeline=name, limit=1)).items:
        return
    known = set(app.pipelines) - set(app.internal)
    problem = FieldError("pipeline", unknown_choice("pipeline", name, known))
    raise Rejected("The request is not valid.", fields=[problem])
