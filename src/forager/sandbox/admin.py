"""The admin door of a running sandbox, for tests and auditors in other processes.

Not part of the imitated API, and never logged as a request to it.
"""

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from forager.core.errors import Rejected
from forager.sandbox.config import LIVE
from forager.sandbox.faults import Rule
from forager.sandbox.wire import JSON, Request

if TYPE_CHECKING:
    from forager.sandbox.server import SerperSandbox

Reply = tuple[int, bytes, bytes]
JSON_LINES = b"application/x-ndjson"


def administer(sandbox: "SerperSandbox", request: Request) -> Reply:
    route = _ROUTES.get((request.method, request.path.removeprefix("/_sandbox/")))
    try:
        if route is None:
            known = ", ".join(f"{method} /_sandbox/{name}" for method, name in _ROUTES)
            return 404, orjson.dumps({"message": f"No such admin route. There are: {known}", "statusCode": 404}), JSON
        return route(sandbox, request)
    except Rejected as error:
        return 400, orjson.dumps({"message": error.message, "statusCode": 400}), JSON


def _log(sandbox: "SerperSandbox", request: Request) -> Reply:
    since = parse_qs(request.query).get("since", ["0"])[0]
    if not since.isdigit():
        raise Rejected(f"`since` is the number of the last entry already read; got {since!r}")
    return 200, b"".join(entry.json() + b"\n" for entry in sandbox.log.since(int(since))), JSON_LINES


def _stats(sandbox: "SerperSandbox", _request: Request) -> Reply:
    return 200, orjson.dumps(sandbox.stats()), JSON


def _reset(sandbox: "SerperSandbox", _request: Request) -> Reply:
    sandbox.reset()
    return 200, b"{}", JSON


def _faults(sandbox: "SerperSandbox", request: Request) -> Reply:
    """A list of rules to add, or `{"clear": true, "rules": […]}` to put them in the place of the present ones."""
    value = _decoded(request)
    clear = isinstance(value, dict) and bool(value.get("clear"))
    listed = value.get("rules", []) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise Rejected('Send a list of rules, or {"clear": true, "rules": [...]}')
    rules = [Rule.from_json(rule) for rule in listed]
    if clear:
        sandbox.serper.script.clear()
    sandbox.serper.script.add(rules)
    return 200, orjson.dumps({"added": len(rules)}), JSON


def _config(sandbox: "SerperSandbox", request: Request) -> Reply:
    changes = _decoded(request)
    if not isinstance(changes, dict):
        raise Rejected("Send an object of setting to value")
    fixed = sorted(set(changes) - LIVE)
    if fixed:
        raise Rejected(
            f"{', '.join(fixed)} cannot change while the sandbox runs: start another one. "
            f"What can change: {', '.join(sorted(LIVE))}."
        )
    sandbox.serper.adopt(changes)
    return 200, b"{}", JSON


def _decoded(request: Request) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError as error:
        raise Rejected(f"The body is not valid JSON: {error}") from error


_ROUTES = {
    ("GET", "log"): _log,
    ("GET", "stats"): _stats,
    ("POST", "reset"): _reset,
    ("POST", "faults"): _faults,
    ("POST", "config"): _config,
}
