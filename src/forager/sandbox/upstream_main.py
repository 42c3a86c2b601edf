"""`python -m forager.sandbox NAME`: one simulated upstream as a process of its own.

Prints one JSON line with its addresses when it is ready, and nothing else to standard output.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from forager.core.errors import Rejected
from forager.sandbox.apify import ApifyConfig, ApifySandbox
from forager.sandbox.google import GoogleConfig, GoogleSandbox
from forager.sandbox.knobs import Knobs
from forager.sandbox.process import run_until_ended
from forager.sandbox.shop import ShopConfig, ShopSandbox
from forager.sandbox.upstream import Upstream


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
    """What the size counts."""


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
