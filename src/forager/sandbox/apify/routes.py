"""Which method of the API a request calls. Pure."""

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import orjson

from forager.sandbox.wire import Request


class Asked(NamedTuple):
    """One call, understood. `operation` is empty if there is no such endpoint."""

    operation: str
    subject: str
    """The id in the path: an actor, a run, a dataset, a store."""
    record: str
    """Key of a record in a store."""
    token: str
    query: dict[str, str]
    body: bytes
    sent: Any
    """The decoded body; None if it is not JSON."""
    user_agent: str

    @property
    def needs_token(self) -> bool:
        """Whether knowing the id is not enough."""
        return self.operation in ("runs.start", "runs.sync", "runs.list", "runs.abort", "runs.delete")

    @property
    def page(self) -> int:
        """Offset of a list, so that pages can be told apart in the log."""
        offset = self.query.get("offset", "0")
        return int(offset) if offset.isdigit() else 0

    @property
    def search(self) -> str:
        """What a start searches for: the words, else the first start URL."""
        sent = self.sent if isinstance(self.sent, dict) else {}
        urls = sent.get("startUrls")
        return str(sent.get("search") or (urls[0] if isinstance(urls, list) and urls else ""))

    @property
    def shown_query(self) -> str:
        """The query without the token."""
        return urlencode({name: value for name, value in self.query.items() if name != "token"})


def read_route(request: Request) -> Asked:
    """Understand a request. `?method=` overrides the verb; the token may be in the header or in the query."""
    query = dict(parse_qsl(request.query, keep_blank_values=True))
    verb = query.get("method", request.method).upper()
    scheme, _, token = request.headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    token = token.strip() if scheme.lower() == "bearer" else query.get("token", "")
    operation, subject, record = _match(verb, request.path)
    try:
        sent = orjson.loads(request.body) if request.body else {}
    except ValueError:
        sent = None
    agent = request.headers.get(b"user-agent", b"").decode("latin-1")
    return Asked(operation, subject, record, token, query, request.body, sent, agent)


def _match(verb: str, path: str) -> tuple[str, str, str]:
    for method, pattern, operation in _ROUTES:
        match = pattern.fullmatch(path) if method == verb else None
        if match is not None:
            named = match.groupdict()
            return operation, named.get("id", ""), named.get("record", "")
    return "", "", ""


_ACTOR = r"/v2/(?:acts|actors)/(?P<id>[^/]+)"
_RUN = r"/v2/actor-runs/(?P<id>[^/]+)"
_DATASET = r"/v2/datasets/(?P<id>[^/]+)"
_ROUTES = tuple(
    (verb, re.compile(pattern), operation)
    for verb, pattern, operation in (
        ("POST", rf"{_ACTOR}/runs", "runs.start"),
        ("POST", rf"{_ACTOR}/run-sync-get-dataset-items", "runs.sync"),
        ("GET", rf"{_ACTOR}/runs", "runs.list"),
        ("GET", _RUN, "runs.get"),
        ("POST", rf"{_RUN}/abort", "runs.abort"),
        ("DELETE", _RUN, "runs.delete"),
        ("GET", rf"{_RUN}/log", "runs.log"),
        ("GET", rf"{_RUN}/dataset/items", "run.items"),
        ("GET", rf"{_RUN}/key-value-store/records/(?P<record>[^/]+)", "run.record"),
        ("GET", _DATASET, "dataset.get"),
        ("GET", rf"{_DATASET}/items", "dataset.items"),
        ("GET", r"/v2/key-value-stores/(?P<id>[^/]+)/records/(?P<record>[^/]+)", "store.record"),
    )
)
