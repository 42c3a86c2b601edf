"""The admin routes of a simulated upstream, for tests and auditors in other processes.

They are not part of the imitated API and are never logged as requests to it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from forager.core.errors import Rejected
from forager.sandbox.trouble import When
from forager.sandbox.wire import JSON, Request

if TYPE_CHECKING:
    from forager.sandbox.upstream import Upstream

AdminRoute = Callable[[Any], Any]
_Reply = tuple[int, bytes, bytes]
_JSON_LINES = b"application/x-ndjson"


def administer(upstream: "Upstream[Any]", request: Request) -> _Reply:
    """Answer a request under `/_sandbox/` with (status, body, content type)."""
    name = request.path.removeprefix("/_sandbox/")
    own = upstream.admin_routes()
    try:
        if request.method == "GET" and name == "log":
            return _log(upstream, request)
        if request.method == "GET" and name == "stats":
            return 200, orjson.dumps(upstream.stats()), JSON
        if request.method == "POST" and name == "reset":
            upstream.reset()
            return 200, b"{}", JSON
        if request.method == "POST" and name in _POSTED:
            return 200, orjson.dumps(_POSTED[name](upstream, _decoded(request))), JSON
        if request.method == "POST" and name in own:
            return 200, orjson.dumps(own[name](_decoded(request))), JSON
    except Rejected as error:
        return 400, orjson.dumps({"message": error.message, "statusCode": 400}), JSON
    posted = ", ".join(f"POST /_sandbox/{each}" for each in ("reset", *_POSTED, *own))
    message = f"No such admin route. There are: GET /_sandbox/log, GET /_sandbox/stats, {posted}"
    return 404, orjson.dumps({"message": message, "statusCode": 404}), JSON


def _log(upstream: "Upstream[Any]", request: Request) -> _Reply:
    since = parse_qs(request.query).get("since", ["0"])[0]
    if not since.isdigit():
        raise Rejected(f"`since` is the number of the last entry already read; got {since!r}")
    return 200, b"".join(call.json() + b"\n" for call in upstream.log.since(int(since))), _JSON_LINES


def _faults(upstream: "Upstream[Any]", value: Any) -> Any:
    """A list of rules to add, or `{"clear": true, "rules": […]}` to put them in the place of the present ones."""
    clear = isinstance(value, dict) and bool(value.get("clear"))
    listed = value.get("rules", []) if isinstance(value, dict) else value
    if not isinstance(listed, list):
        raise Rejected('Send a list of rules, or {"clear": true, "rules": [...]}')
    rules = [When.from_json(rule, upstream.config.fault_names) for rule in listed]
    if clear:
        upstream.faults.script.clear()
    upstream.faults.script.add(rules)
    return {"added": len(rules)}


def _config(upstream: "Upstream[Any]", changes: Any) -> Any:
    if not isinstance(changes, dict):
        raise Rejected("Send an object of setting to value")
    fixed = sorted(set(changes) - upstream.config.live)
    if fixed:
        raise Rejected(
            f"{', '.join(fixed)} cannot change while the sandbox runs: start another one. "
            f"What can change: {', '.join(sorted(upstream.config.live))}."
        )
    upstream.adopt(upstream.config.changed(changes))
    return {}


def _clock(upstream: "Upstream[Any]", value: Any) -> Any:
    seconds = value.get("advance_seconds") if isinstance(value, dict) else None
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise Rejected('Send {"advance_seconds": number}')
    upstream.time.advance(seconds)
    return {"now": upstream.time.now().isoformat()}


def _decoded(request: Request) -> Any:
    try:
        return orjson.loads(request.body)
    except ValueError as error:
        raise Rejected(f"The body is not valid JSON: {error}") from error


_POSTED: dict[str, Callable[["Upstream[Any]", Any], Any]] = {"faults": _faults, "config": _config, "clock": _clock}
