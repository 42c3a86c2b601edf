"""Simulated upstreams as a process of their own: started together, announced once, ended by a signal."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Any

import orjson
import uvloop

from forager.core.errors import Rejected
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sandbox.config import Knobs
from forager.sandbox.google import GoogleConfig, GoogleSandbox
from forager.sandbox.linked import LinkedConfig, LinkedSandbox
from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.sandbox.site import SandboxSite
from forager.sandbox.upstream import Upstream


def run_until_ended(
    servers: Sequence[AbstractAsyncContextManager[Any]],
    announce: Callable[[], None],
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Run servers until SIGTERM or SIGINT. `announce` is called once all of them listen.

    With `until_stdin_closes` they also end when standard input does: a starter that is killed leaves no orphan.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # logs grow by small, acyclic objects: looking through them only stalls the loop
    uvloop.run(_run(servers, announce, until_stdin_closes))


async def _run(
    servers: Sequence[AbstractAsyncContextManager[Any]], announce: Callable[[], None], until_stdin_closes: bool
) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _watch_stdin, ended)
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        announce()
        await ended.wait()


def _watch_stdin(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


# `python -m forager.sandbox NAME`: one simulated upstream as a process of its own.
#
# Prints one JSON line with its addresses when it is ready, and nothing else to standard output.


@dataclass(frozen=True)
class Program:
    """An upstream that can run alone."""

    about: str
    config: Knobs
    build: Callable[[Any, Mapping[str, int]], Upstream[Any]]
    """Takes the settings and the port of each host."""
    hosts: tuple[str, ...]
    size: Callable[[int], dict[str, Any]]
    """The settings that make a world of this size."""
    sized: str
    """Unit of the size."""


PROGRAMS: dict[str, Program] = {
    "google": Program(
        "Google Business Profile: accounts, locations, reviews, tokens.",
        GoogleConfig(),
        lambda config, ports: GoogleSandbox(config, ports=ports),
        GoogleSandbox.host_names,
        lambda size: {"default": {"locations": size}},
        "locations of a tenant",
    ),
    "apify": Program(
        "Apify with its apartments actors, and the listings site behind them.",
        ApifyConfig(),
        lambda config, ports: ApifySandbox(config, ports=ports),
        ApifySandbox.host_names,
        lambda size: {"homes": size},
        "homes of a market",
    ),
    "shop": Program(
        "A shop with product pages, categories, sitemaps and images.",
        ShopConfig(),
        lambda config, ports: ShopSandbox(config, ports=ports),
        ShopSandbox.host_names,
        lambda size: {"pages": size},
        "product pages",
    ),
    "linked": Program(
        "A site of linked articles, with a calendar, filters, session ids, copies and redirects as traps.",
        LinkedConfig(),
        lambda config, ports: LinkedSandbox(config, ports=ports),
        LinkedSandbox.host_names,
        lambda size: {"pages": size},
        "articles",
    ),
}


def run(name: str, arguments: Sequence[str]) -> int:
    """Run the named upstream until a signal ends it; return the exit code."""
    program = PROGRAMS[name]
    options = _parser(name, program).parse_args(arguments)
    try:
        ports = {host: options.port + n for n, host in enumerate(program.hosts)} if options.port else {}
        upstream = program.build(_config(program, options), ports)
        run_until_ended((upstream,), lambda: _announce(upstream), until_stdin_closes=options.until_stdin_closes)
    except (Rejected, OSError) as error:
        sys.stderr.write(f"The sandbox did not start: {error}\n")
        return 2
    return 0


def _parser(name: str, program: Program) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(f"python -m forager.sandbox {name}", description=program.about)
    hosts = ", ".join(program.hosts)
    parser.add_argument(
        "--port", type=int, default=0, help=f"first port, then one more per host ({hosts}); 0: any free"
    )
    parser.add_argument("--size", type=int, help=f"size of the world: {program.sized}")
    parser.add_argument("--seed", type=int, help="seed for the generated data")
    parser.add_argument("--latency-ms", type=float, help="time to an answer; with --latency-sigma its median")
    parser.add_argument("--latency-sigma", type=float, help="spread of a log-normal latency; 0 is a fixed one")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=SHARE", help="such as http500=0.01")
    parser.add_argument("--log-path", help="append one JSON line per request to this file")
    parser.add_argument("--config", default="{}", metavar="JSON", help="any settings of the upstream, by name")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started this one")
    return parser


def _config(program: Program, options: argparse.Namespace) -> Knobs:
    try:
        changes = orjson.loads(options.config)
    except ValueError as error:
        raise Rejected(f"--config is not valid JSON: {error}") from error
    if not isinstance(changes, dict):
        raise Rejected("--config is not a JSON object")
    for name in ("seed", "latency_ms", "latency_sigma", "log_path"):
        if getattr(options, name) is not None:
            changes[name] = getattr(options, name)
    if options.size is not None:
        for name, value in program.size(options.size).items():
            given = changes.get(name)
            changes[name] = {**given, **value} if isinstance(given, dict) and isinstance(value, dict) else value
    if options.fault:
        changes["faults"] = dict(share_named(text) for text in options.fault)
    return program.config.changed(changes)


def share_named(text: str) -> tuple[str, float]:
    """Split `http500=0.01`; raises `Rejected` for any other form."""
    name, _, share = text.partition("=")
    try:
        return name, float(share)
    except ValueError:
        raise Rejected(f"--fault takes NAME=SHARE, such as http500=0.01; got {text!r}") from None


def _announce(upstream: Upstream[Any]) -> None:
    sys.stdout.write(orjson.dumps(upstream.announcement()).decode() + "\n")
    sys.stdout.flush()


# `python -m forager.sandbox together --config JSON`: several upstreams in one process, each on ports of its own.


TOGETHER = "together"
SERPER, SITE = "serper", "site"
"""Upstreams that are not in `PROGRAMS`: the places API, and a web site with job postings and companies."""


def run_together(arguments: Sequence[str]) -> int:
    """Serve the upstreams that `--config` names, until a signal or the end of standard input ends them.

    `--config` maps a name (`serper`, `site` or one of `PROGRAMS`) to the settings of that upstream. The announcement
    has one entry for each of them.
    """
    parser = argparse.ArgumentParser("python -m forager.sandbox together", description="Several upstreams at once.")
    parser.add_argument("--config", required=True, metavar="JSON", help="settings of each upstream, by its name")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started this one")
    options = parser.parse_args(arguments)
    try:
        servers = {name: _server(name, changes) for name, changes in orjson.loads(options.config).items()}

        def announce() -> None:
            said = {name: announced() for name, (_, announced) in servers.items()}
            sys.stdout.write(orjson.dumps(said).decode() + "\n")
            sys.stdout.flush()

        opened = [server for server, _ in servers.values()]
        run_until_ended(opened, announce, until_stdin_closes=options.until_stdin_closes)
    except (Rejected, OSError, ValueError) as error:
        sys.stderr.write(f"The sandbox did not start: {error}\n")
        return 2
    return 0


def _server(
    name: str, changes: Mapping[str, Any]
) -> tuple[AbstractAsyncContextManager[Any], Callable[[], dict[str, Any]]]:
    """Return an upstream and the function that returns its announcement once it listens."""
    if name == SERPER:
        from forager.sandbox.config import SerperConfig
        from forager.sandbox.server import SerperSandbox

        serper = SerperSandbox(SerperConfig().changed(dict(changes)))
        return serper, lambda: {"url": serper.url}
    if name == SITE:
        site = SandboxSite(**changes)
        return site, lambda: {"url": site.url("").rstrip("/")}
    if name not in PROGRAMS:
        raise Rejected(f"There is no sandbox {name!r}; choose from {', '.join((SERPER, SITE, *PROGRAMS))}.")
    program = PROGRAMS[name]
    upstream = program.build(program.config.changed(dict(changes)), {})
    return upstream, upstream.announcement
