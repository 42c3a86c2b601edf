"""The plain demo: a job on an embedded store of its own, in this process."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import forager.api  # noqa: F401 - imported while the upstream starts, since it takes as long
from forager.cli.connect import in_process
from forager.config import new_settings
from forager.kit.cli import progress, render
from forager.kit.cli.demo import Demo, Upstream
from forager.kit.cli.invocation import Reached
from forager.kit.cli.run_job import work_on
from forager.kit.cli.running import run_loop


def run_demo(demo: Demo, home: Path, upstream: Upstream, *, as_json: bool) -> None:
    """Run the demo's job and print what it found, or with `as_json` all of it as data."""
    began = time.monotonic()
    if not as_json:
        render.notes().print(demo.intro)
    job, results = run_loop(_run(demo, home, upstream, as_json=as_json))
    seconds = time.monotonic() - began
    data = home / "ledger.db"
    if as_json:
        render.show_json({"job": job, demo.name: results, "data": str(data), "seconds": round(seconds, 2)})
        return
    demo.show(job, results)
    console = render.out()
    console.print(render.facts([("data", render.near(data))]))
    render.show_next(demo.next_steps(home))


async def _run(demo: Demo, home: Path, upstream: Upstream, *, as_json: bool) -> tuple[Mapping[str, Any], Any]:
    settings = new_settings(home=home, **demo.settings(upstream))
    if demo.again is not None:
        async with in_process(settings) as at:
            await _run_job(demo, at, upstream, as_json=as_json)
        await demo.again(upstream)
    async with in_process(settings) as at:
        job = await _run_job(demo, at, upstream, as_json=as_json)
        return job, await demo.found(at.api, job["id"])


async def _run_job(demo: Demo, at: Reached, upstream: Upstream, *, as_json: bool) -> Mapping[str, Any]:
    assert at.engine is not None  # noqa: S101 - in_process opened it
    created = await at.api.post(demo.path, demo.job_for(upstream))
    view = progress.choose_view(render.notes(), quiet=as_json, words=demo.words)
    follow = demo.follow if not as_json and render.out().is_terminal else None
    return await work_on(at.api, at.engine, created["job_id"], view, demo.words, follow=follow)
