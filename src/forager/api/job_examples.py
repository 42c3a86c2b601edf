"""Examples of requests that name a pipeline: one for each pipeline whose job class has an example."""

from typing import Any

from forager.app import App
from forager.kit.http.examples import example_of


def job_examples(app: App, **more: Any) -> dict[str, Any]:
    """Return OpenAPI examples by pipeline: `{pipeline, params}`, plus whatever else the request needs."""
    jobs = {name: example_of(pipeline.params) for name, pipeline in app.pipelines.items() if not pipeline.internal}
    return {
        name: {"summary": app.features[name].summary, "value": {"pipeline": name, "params": params, **more}}
        for name, params in jobs.items()
        if params
    }
