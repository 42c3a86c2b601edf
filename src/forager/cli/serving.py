"""`forager up` and `forager worker`: run Forager until it is stopped."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from forager.core.errors import FieldError, Rejected, Unconfigured
from forager.sdk.cli.invocation import Json, invocation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forager.cli.process import Mode
    from forager.ledger.reports import JobReport
    from forager.settings import Settings

NEEDS_POSTGRES = (
    "{} needs PostgreSQL (FORAGER_DATABASE_URL): the embedded store belongs to one process, so that no worker could run"
    " beside it. Run `forager up` without this option."
)
ALL_QUEUES = (
    "--until-idle waits until nothing can run in any queue, which a worker with --queue may not do. Use one of them."
)


def up(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but loopback needs a strong service key.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the API (0 = any free port).")] = None,
    api_only: Annotated[
        bool, typer.Option("--api-only", help="Serve the API without an engine; workers do the work (PostgreSQL).")
    ] = False,
    runner: Annotated[
        Literal["embedded", "celery"],
        typer.Option(help="Runner of tasks: this process, or Celery workers that it sends shifts to (PostgreSQL)."),
    ] = "embedded",
    broker: Annotated[str | None, typer.Option(help="URL of Celery's broker (FORAGER_BROKER_URL).")] = None,
    shifts: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="Maximum shifts at once (FORAGER_SHIFTS, default 8).")
    ] = None,
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the dashboard in a browser; without it, nothing is opened.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Run Forager: API, dashboard, engine and schedules in one process, restarted if it dies.

    Prints its URL, a link that signs a browser in to the dashboard once, and on the very first start the service key.
    On Ctrl-C or SIGTERM, in-flight tasks finish.

    Example: forager up --open
    """
    from forager.cli import process
    from forager.cli.supervise import is_supervised
    from forager.client.connect import up_lock
    from forager.secrets.service_key import check_bind, service_key

    settings = invocation(context).settings({"host": host, "port": port, "broker_url": broker, "shifts": shifts})
    mode = process.Mode.API_ONLY if api_only else process.Mode(runner)
    if mode is not process.Mode.EMBEDDED:
        _check_mode(settings, mode)
    key, is_new = service_key(settings.home, settings.service_key)
    check_bind(settings.host, key)
    if is_supervised():

        def show(url: str, link: str, notices: "Sequence[str]") -> None:
            _show_url(url, link, notices, as_json=as_json)
            if open_browser:
                _open(link)

        up_ = process.up(settings, key, show, mode)
        return process.run_process(settings, up_, key=key)
    with up_lock(settings.home) if settings.database_url is None else nullcontext():
        if is_new:
            _show_key(key, settings.home / "service.key", as_json=as_json)
        return process.supervise(invocation(context).arguments, settings)


def worker(
    context: typer.Context,
    until_idle: Annotated[
        bool,
        typer.Option(
            "--until-idle",
            help="Run what is due; exit when no task can run within a minute; list the jobs left. No schedules.",
        ),
    ] = False,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", help="Take only lanes of this queue; may be repeated.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(help="Region of this process, such as eu: it takes the lanes pinned there (PostgreSQL)."),
    ] = None,
    runner: Annotated[
        Literal["embedded", "kafka"],
        typer.Option(help="Source of tasks: the ledger alone, or Kafka topics of the queues (PostgreSQL)."),
    ] = "embedded",
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve /metrics on this port (0 = any free port).")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address of that port; other machines reach any but loopback, without a key.")
    ] = "127.0.0.1",
    as_json: Json = False,
) -> int:
    """Run the engine without the API, restarted if it dies.

    The embedded store belongs to one process: beside a running `up` this fails with exit code 3. On PostgreSQL, run as
    many workers as you like.

    Example: forager worker --until-idle
    """
    from forager.cli import job_tables, process
    from forager.cli.supervise import is_supervised
    from forager.sdk.cli import render

    settings = invocation(context).settings({"region": region})
    if settings.region is not None and settings.database_url is None:
        raise Rejected(NEEDS_POSTGRES.format("--region"), fields=[FieldError("--region", "needs FORAGER_DATABASE_URL")])
    if queue and until_idle:
        raise Rejected(ALL_QUEUES, fields=[FieldError("--queue", "cannot be combined with --until-idle")])
    if runner == "kafka":
        _check_kafka(settings, queue)
    if not is_supervised():
        return process.supervise(invocation(context).arguments, settings)
    left: list[JobReport] = []
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    work = process.worker(
        settings,
        until_idle=until_idle,
        show_left=left.extend,
        metrics=metrics,
        queues=queue,
        from_kafka=runner == "kafka",
    )
    code = process.run_process(settings, work)
    if as_json:
        render.show_json({"stopped": True, "left": [_plain(job) for job in left]})
    elif left:
        render.notes().print(f"{render.some(len(left), 'job')} left that cannot run now:", markup=False)
        render.out().print(job_tables.listed([_plain(job) for job in left]))
    return code


def _check_mode(settings: "Settings", mode: "Mode") -> None:
    """Raise `Rejected`, with the remedy, if this set-up leaves the work to others who could not do it."""
    option = "--api-only" if mode == "api" else f"--runner {mode}"
    if settings.database_url is None:
        raise Rejected(NEEDS_POSTGRES.format(option), fields=[FieldError(option, "needs FORAGER_DATABASE_URL")])
    if mode == "celery":
        from importlib.util import find_spec

        if find_spec("celery") is None:
            raise Unconfigured("Celery is not installed. Install it: pip install 'forager-data[celery]'.")
        from forager.runners.celery.dispatch import required_broker

        required_broker(settings)


def _check_kafka(settings: "Settings", queues: list[str] | None) -> None:
    """Raise `Rejected` or `Unconfigured`, with the remedy, if no task could come from Kafka."""
    from importlib.util import find_spec

    if find_spec("confluent_kafka") is None:
        raise Unconfigured("The Kafka client is not installed. Install it: pip install 'forager-data[kafka]'.")
    from forager.runners.kafka.start_checks import check

    check(settings, queues)


def _plain(job: "JobReport") -> dict[str, Any]:
    return job.model_dump(mode="json")


def _open(link: str) -> None:
    """Open a link in the user's browser, in a thread: some browsers answer only when they end."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=[link], daemon=True).start()


def _show_url(url: str, link: str, notices: "Sequence[str]", *, as_json: bool) -> None:
    from forager.sdk.cli import render

    if as_json:
        render.show_json({"url": url, "link": link, **({"notices": notices} if notices else {})}, indent=False)
        return
    for line in notices:
        render.write(f"{line}\n")
    render.write(f"Forager is up at {url} (Ctrl-C stops it)\n")
    render.write(f"Dashboard (this link works once, for 5 minutes): {link}\n")


def _show_key(key: str, path: Path, *, as_json: bool) -> None:
    from forager.sdk.cli import render

    if as_json:
        render.show_json({"service_key": key, "kept_in": str(path)}, indent=False)
    else:
        render.write(f"Service key (shown once, kept in {path}; send it as X-Service-Key):\n{key}\n")
