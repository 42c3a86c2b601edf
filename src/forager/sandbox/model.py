"""A simulated language model behind an OpenAI-compatible endpoint: it answers honestly, invents, refuses, or is late.

An honest answer is found by simple rules: the rest of the first line of the page that begins with the field's name, as
`Price: $12` for `price`; else the first amount, date or place of a page for a field that asks for one. It charges for
the tokens of each new question; a repeated `Idempotency-Key` is free.
"""

import asyncio
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from forager.sandbox.wire import Connection, PortListener, WireRequest

_QUESTION = re.compile(r"\Afields = (\{.*?\})\n\nText of the page:\n<page>\n(.*)\n</page>\Z", re.DOTALL)
_RULES = (
    (r"price|cost|pay|salary|wage|rent|how much", r"^.*(?:[$\u20ac\u00a3]|USD|EUR|GBP)\s?\d.*$"),
    (r"date|when|day", r"\b\d{4}-\d\d-\d\d\b|\b\d{1,2} [A-Z][a-z]{2,8} \d{4}\b"),
    (r"location|where|city|place", r"^[A-Z][\w ]{2,30}, [A-Z]{2}$"),
)
"""Pairs of patterns: words of a field's description, and the form of such a value on a page."""
BYTES_A_TOKEN = 4
PATH = "/v1/chat/completions"
Trouble = Literal["invent", "nonsense", "refuse", "late", "no_usage"] | int
"""Instead of an honest answer: invented values; a text that is no JSON; a message without content; no answer at all;
one without counted tokens; or an error status, 0 for a cut connection."""


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """A question as it was received."""

    key: str
    """Its idempotency key."""
    fields: tuple[str, ...]
    page: str
    is_second: bool
    status: int
    """Status of the answer; 0: there was none."""
    tokens: int
    """Tokens that were charged for it."""


class SimulatedModel(PortListener):
    """`async with SimulatedModel("key") as model:` then `model.trouble("invent", 429)` for the next two questions."""

    def __init__(
        self, key: str | None = None, *, port: int = 0, name: str = "sandbox-model", latency: float = 0.0
    ) -> None:
        super().__init__(port)
        self.latency = latency
        """Seconds from a question to its answer."""
        self.key = key
        self.name = name
        self.log: list[ModelQuestion] = []
        self.values: dict[str, Any] = {}
        """Answers by field, before the rule above."""
        self.always: Trouble | None = None
        """Trouble with every question; a model that repeats what it has invented is `"invent"`."""
        self._trouble: list[Trouble] = []
        self._answered: dict[str, bytes] = {}
        self._waiting: list[Connection] = []

    @property
    def base_url(self) -> str:
        return self.url("/v1")

    @property
    def charged(self) -> int:
        """Tokens charged for all questions."""
        return sum(each.tokens for each in self.log)

    @property
    def in_flight(self) -> list[Connection]:
        """Connections whose answer has not been sent."""
        return [each for each in self._waiting if each.is_open]

    def trouble(self, *troubles: Trouble) -> None:
        """The next questions meet these, in turn."""
        self._trouble.extend(troubles)

    def _receive(self, request: WireRequest, connection: Connection) -> None:
        sent = request.headers.get(b"authorization", b"")
        if self.key is not None and not hmac.compare_digest(sent, f"Bearer {self.key}".encode()):
            connection.send(401, _error("Incorrect API key provided."))
            return
        body = _loaded(request.body)
        if request.path != PATH or body.get("model") != self.name:
            connection.send(404, _error("The model does not exist."))
            return
        self._answer(request.headers.get(b"idempotency-key", b"").decode("latin-1"), body, request.body, connection)

    def _answer(self, key: str, body: Mapping[str, Any], raw: bytes, connection: Connection) -> None:
        told = [str(each.get("content")) for each in body.get("messages", ())]
        question = _QUESTION.match(told[1]) if len(told) > 1 else None
        if question is None:
            connection.send(400, _error("The question is not one of Forager's."))
            return
        fields: dict[str, Any] = orjson.loads(question[1])
        seen = tuple(fields), question[2], len(told) > 2
        if key and key in self._answered:
            self.log.append(ModelQuestion(key, *seen, 200, 0))
            connection.send(200, self._answered[key])
            return
        trouble = self._trouble.pop(0) if self._trouble else self.always
        if isinstance(trouble, int):
            self.log.append(ModelQuestion(key, *seen, trouble, 0))
            connection.send(trouble, _error("in trouble")) if trouble else connection.cut()
            return
        content = self._content(fields, question[2], trouble)
        tokens = len(raw) // BYTES_A_TOKEN, len(content or "") // BYTES_A_TOKEN + 1
        answer: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": content}}]}
        if trouble != "no_usage":
            answer["usage"] = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
        late = trouble == "late"
        self.log.append(ModelQuestion(key, *seen, 0 if late else 200, sum(tokens)))
        self._answered[key] = orjson.dumps(answer)
        if late:
            self._waiting.append(connection)  # the answer is made and charged, and never arrives
        elif self.latency:
            self._waiting.append(connection)
            asyncio.get_running_loop().call_later(self.latency, self._send, connection, self._answered[key])
        else:
            connection.send(200, self._answered[key])

    def _send(self, connection: Connection, body: bytes) -> None:
        self._waiting.remove(connection)
        connection.send(200, body)

    def _content(self, fields: Mapping[str, Any], page: str, trouble: str | None) -> str | None:
        if trouble == "refuse":
            return None
        if trouble == "nonsense":
            return "I am happy to help! The price is, I think, twelve dollars."
        if trouble == "invent":
            return orjson.dumps({name: f"invented {name} 98765" for name in fields}).decode()
        known = {
            name: self.values[name] if name in self.values else _stated(name, fields[name], page) for name in fields
        }
        return orjson.dumps(known).decode()


def _stated(name: str, field: Mapping[str, Any], page: str) -> str | None:
    label = re.escape(name.replace("_", " "))
    found = re.search(rf"^{label}\s*[:\-]\s*(.+)$", page, re.IGNORECASE | re.MULTILINE)
    if found:
        return found[1].strip()
    asked = f"{label} {field.get('description', '')}".lower()
    for words, shape in _RULES:
        if re.search(rf"\b(?:{words})", asked) and (shown := re.search(shape, page, re.MULTILINE)):
            return shown[0].strip()
    return None


def _loaded(body: bytes) -> dict[str, Any]:
    try:
        data = orjson.loads(body)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _error(message: str) -> bytes:
    return orjson.dumps({"error": {"message": message, "type": "invalid_request_error"}})
