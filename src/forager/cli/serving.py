"""`forager up`, `forager worker`, `forager sandbox`: the commands that stay."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from forager.cli.exit_codes import ExitCode
from forager.cli.invocation import Json, invocation


def up(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; any but loopback needs a strong service key.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of the API; 0 takes a free one.")] = None,
    as_json: Json = False,
) -> int:
    """Run Forager: API, engine and schedules in one process, restarted if it dies.

    Prints its URL, and on the very first start the service key. Ctrl-C or SIGTERM lets what is in flight end.
    """
    from forager.cli import process
    from forager.cli.supervisor_lock import looking_after
    from forager.keys import check_bind, service_key
    from forager.supervise import is_supervised

    settings = invocation(context).settings({"host": host, "port": port})
    key, is_new = service_key(settings.home, settings.service_key)
    check_bind(settings.host, key)
    if is_supervised():
        up_ = process.up(settings, key, lambda url: _show_url(url, as_json=as_json))
        return process.run_process(settings, up_, key=key)
    with looking_after(settings.home) if settings.database_url is None else nullcontext():
        if is_new:
            _show_key(key, settings.home / "service.key", as_json=as_json)
        return process.supervise(invocation(context).arguments, settings)


def worker(
    context: typer.Context,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when every job has ended or is paused; fires no schedules.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Run the engine without the API, restarted if it dies.

    The embedded store belongs to one process: beside a running `up` this ends with exit code 3. On PostgreSQL run as
    many as you like.
    """
    from forager.cli import process
    from forager.supervise import is_supervised

    settings = invocation(context).settings()
    if not is_supervised():
        return process.supervise(invocation(context).arguments, settings)
    code = process.run_process(settings, process.worker(settings, until_idle=until_idle))
    if as_json:
        typer.echo('{"stopped": true}')
    return code


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Another seed is another world.")] = None,
    key: Annotated[str | None, typer.Option(help="The key that is accepted (default: sandbox-key).")] = None,
    latency_ms: Annotated[float | None, typer.Option(help="Time to an answer, in milliseconds.")] = None,
    latency_sigma: Annotated[
        float | None, typer.Option(help="Spread of a log-normal latency; 0 is a fixed one.")
    ] = None,
    rate_limit: Annotated[int | None, typer.Option(help="Requests a second before a 429; 0 only counts.")] = None,
    balance: Annotated[
        int | None, typer.Option("--credits", help="Credits that the key has; without it, endless.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every page is full: the worst case for credits.")] = False,
    fault: Annotated[
        list[str] | None, typer.Option(metavar="NAME=SHARE", help="Such as http500=0.01; repeat it.")
    ] = None,
    log_path: Annotated[Path | None, typer.Option(help="Append one JSON line per request to this file.")] = None,
    as_json: Json = False,
) -> int:
    """Serve a simulated Serper on a local port, with the faults of the real one. Costs nothing; needs no key.

    Answers until Ctrl-C, and prints how to point Forager at it.
    """
    from forager.sandbox import SerperConfig, serve

    named = {
        "seed": seed,
        "key": key,
        "latency_ms": latency_ms,
        "latency_sigma": latency_sigma,
        "credits": balance,
        "log_path": str(log_path) if log_path else None,
    }
    changes: dict[str, object] = {name: value for name, value in named.items() if value is not None}
    if rate_limit is not None:
        changes["rate_limit"] = rate_limit or None
    if full:
        changes["density"] = [[1.0, 1000, 1000]]
    if fault:
        changes["faults"] = dict(_share(text) for text in fault)
    config = SerperConfig().changed(changes)
    serve(config, port=port, announce=lambda url: _show_sandbox(url, config.key, as_json=as_json))
    return ExitCode.OK


def _share(text: str) -> tuple[str, float]:
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        raise typer.BadParameter(
            f"give NAME=SHARE, such as http500=0.01, instead of {text!r}", param_hint="--fault"
        ) from None


def _show_url(url: str, *, as_json: bool) -> None:
    from forager.cli import render

    if as_json:
        render.write(f'{{"url": "{url}"}}\n')
    else:
        render.write(f"Forager is up at {url} (Ctrl-C stops it)\n")


def _show_key(key: str, path: Path, *, as_json: bool) -> None:
    import orjson

    from forager.cli import render

    if as_json:
        render.write(orjson.dumps({"service_key": key, "kept_in": str(path)}).decode() + "\n")
    else:
        render.write(f"Service key (shown once, kept in {path}; send it as X-Service-Key):\n{key}\n")


def _show_sandbox(url: str, key: str, *, as_json: bool) -> None:
    import orjson

    from forager.cli import render

    if as_json:
        render.write(orjson.dumps({"url": url, "key": key}).decode() + "\n")
        return
    render.write(
        f"The Serper sandbox answers at {url} (Ctrl-C stops it). In another terminal:\n"
        f"  export FORAGER_SERPER_BASE_URL={url} SERPER_API_KEY={key}\n"
        f"  export FORAGER_EGRESS_ALLOW={url.removeprefix('http://')}\n"
        "  forager places run --keyword bars --state AZ\n"
    )
