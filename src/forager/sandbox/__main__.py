"""`python -m forager.sandbox [NAME]`: a simulated upstream as a process of its own; without a name, Serper.

Prints one JSON line with its URL when it is ready, and nothing else to standard output.
"""

import argparse
import sys
from collections.abc import Sequence

import orjson

from forager.core.errors import Rejected
from forager.sandbox.config import SerperConfig
from forager.sandbox.process import PROGRAMS, TOGETHER, run, run_together, share_named
from forager.sandbox.server import serve
from forager.sandbox.wire import LOOPBACK


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in PROGRAMS:
        return run(words[0], words[1:])
    if words and words[0] == TOGETHER:
        return run_together(words[1:])
    if words and not words[0].startswith("-"):
        sys.stderr.write(f"There is no sandbox {words[0]!r}; choose from {', '.join(PROGRAMS)}, or none for Serper.\n")
        return 2
    options = _parser().parse_args(words)
    try:
        serve(_config(options), LOOPBACK, options.port, _announce, until_stdin_closes=options.until_stdin_closes)
    except (Rejected, OSError) as error:
        sys.stderr.write(f"The sandbox did not start: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m forager.sandbox", description="A simulated Serper places API.", epilog=_OTHERS
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one (default)")
    parser.add_argument("--seed", type=int, help="seed for the generated data")
    parser.add_argument("--key", help="the key that is accepted (default: sandbox-key)")
    parser.add_argument("--latency-ms", type=float, help="time to an answer; with --latency-sigma its median")
    parser.add_argument("--latency-sigma", type=float, help="spread of a log-normal latency; 0 is a fixed one")
    parser.add_argument("--rate-limit", type=int, help="requests a second per key before a 429; 0 only counts them")
    parser.add_argument("--credits", type=int, help="balance of the key (default: endless)")
    parser.add_argument("--variant", choices=("A", "B", "mixed"), help="the form of the rows on /places")
    parser.add_argument("--full", action="store_true", help="every page is full: the worst case for credits")
    parser.add_argument("--fault", action="append", default=[], metavar="NAME=SHARE", help="such as http500=0.01")
    parser.add_argument("--log-path", help="append one JSON line per request to this file")
    parser.add_argument("--config", default="{}", metavar="JSON", help="any settings of SerperConfig, by name")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end with the process that started this one")
    return parser


def _config(options: argparse.Namespace) -> SerperConfig:
    try:
        changes = orjson.loads(options.config)
    except ValueError as error:
        raise Rejected(f"--config is not valid JSON: {error}") from error
    if not isinstance(changes, dict):
        raise Rejected("--config is not a JSON object")
    for name in ("seed", "key", "latency_ms", "latency_sigma", "rate_limit", "credits", "variant", "log_path"):
        if getattr(options, name) is not None:
            changes[name] = getattr(options, name)
    if changes.get("rate_limit") == 0:
        changes["rate_limit"] = None
    if options.full:
        changes["density"] = [[1.0, 1000, 1000]]
    if options.fault:
        changes["faults"] = dict(share_named(text) for text in options.fault)
    return SerperConfig().changed(changes)


_OTHERS = f"Other upstreams: python -m forager.sandbox {'|'.join(PROGRAMS)} --help"


def _announce(url: str) -> None:
    sys.stdout.write(orjson.dumps({"url": url}).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
