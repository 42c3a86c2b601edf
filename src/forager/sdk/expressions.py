"""Conditions on records: `price < 50 and availability == "in_stock"`, `old.price > price`. Parsed and run here; no
`eval`.

`compiled(text, fields)` checks a condition against the fields of a record class and returns an `Expression`;
`matches(now, old)` runs it on the values of a change, as JSON shows them. Everything that can be wrong is found by
`compiled`, with its position; `matches` never raises. Time and memory grow linearly with the condition and the values:
there are no loops, no regular expressions and no function but those of `_FUNCTIONS`.

A value that is not known is null, and null is contagious, as in SQL: a comparison with it is neither true nor false,
and a condition that is not true does not match. `price == null` matches an unknown value.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal, DecimalException
from enum import StrEnum
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from forager.core.ids import near_names
from forager.sdk.queries import bare_type

LONGEST = 2_000
"""Characters of a condition."""
DEEPEST = 40
"""Levels of parentheses, `not` and signs."""
_LONGEST_NUMBER = 64
_ARITHMETIC = Context(prec=34)

Type = Literal["number", "text", "boolean", "time", "list", "json", "null"]
Values = Mapping[str, Any]


class BadExpression(ValueError):
    """A condition that cannot be used. `position` counts characters from 1."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position})")
        self.position = position


@dataclass(frozen=True, slots=True)
class FieldType:
    """Operators of a field in a condition."""

    type: Type
    words: tuple[str, ...] = ()
    """The values that a text can have; empty if it can have any."""


ABOUT: Mapping[str, FieldType] = {
    "op": FieldType("text", ("new", "changed", "gone")),
    "kind": FieldType("text"),
    "key": FieldType("text"),
    "pipeline": FieldType("text"),
    "version": FieldType("number"),
}
"""Names after `change.`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition that was checked."""

    text: str
    names: frozenset[str]
    """The fields that it reads."""
    uses_old: bool
    """True if it reads the state before the change."""
    _run: "_Run"

    def matches(self, now: Values, old: Values | None = None, about: Values | None = None) -> bool:
        """Return whether the condition is true for these values. `old`: the state before; None if it is not known.
        `about`: the values of `change.…`. Never raises."""
        return self._run(_Env(now, old, about or {})) is True


def fields_of(record: type[BaseModel]) -> dict[str, FieldType]:
    """Return the fields of a record class that conditions can read; quiet fields are in no change."""
    quiet: frozenset[str] = getattr(record, "quiet", frozenset())
    return {name: _field_type(info.annotation) for name, info in record.model_fields.items() if name not in quiet}


def compiled(text: str, fields: Mapping[str, FieldType]) -> Expression:
    """Parse and check a condition. Raises `BadExpression`."""
    if len(text) > LONGEST:
        raise BadExpression(f"a condition has at most {LONGEST:,} characters, this one {len(text):,}", LONGEST + 1)
    parser = _Parser(text, fields)
    run = parser.whole()
    return Expression(text, frozenset(parser.names), parser.uses_old, run)


# ── the types of fields ──


def _field_type(annotation: Any) -> FieldType:
    kind = bare_type(annotation)
    if get_origin(kind) is Literal and all(isinstance(word, str) for word in get_args(kind)):
        return FieldType("text", get_args(kind))
    if isinstance(kind, type):
        if issubclass(kind, StrEnum):
            return FieldType("text", tuple(str(each) for each in kind))
        for known, name in _TYPES:
            if issubclass(kind, known):
                return FieldType(name)
    return FieldType("list" if get_origin(kind) in (list, tuple, set, frozenset, Sequence) else "json")


_TYPES: tuple[tuple[type, Type], ...] = (
    (bool, "boolean"),  # before int, of which it is a kind
    (int, "number"),
    (float, "number"),
    (Decimal, "number"),
    (str, "text"),
    (datetime, "time"),
    (date, "time"),
)


class _Env(NamedTuple):
    now: Values
    old: Values | None
    about: Values


_Run = Callable[[_Env], Any]


class _Node(NamedTuple):
    run: _Run
    type: Type
    at: int
    words: tuple[str, ...] = ()
    constant: bool = False


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


# ── from text to tokens: every alternative consumes what it has read, so that the text is passed once ──


_TOKENS = re.compile(
    r"(?P<space>[ \t\r\n]+)|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<text>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')|(?P<sign>==|!=|<=|>=|[-+*/<>().,\[\]])",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t"}


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise BadExpression(_unreadable(text[at]), at + 1)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(_Token(kind, match[0], at + 1))
        at = match.end()
    return [*found, _Token("end", "", len(text) + 1)]


def _unreadable(char: str) -> str:
    if char in "\"'":
        return f"the text that begins with {char} has no end"
    hints = {"=": "; compare with ==", "!": "; write `not` or !=", "&": "; write `and`", "|": "; write `or`"}
    return f"{char!r} has no meaning here{hints.get(char, '')}"


class _Parser:
    """Recursive descent, one method per level of precedence. Each returns a node with its type."""

    def __init__(self, text: str, fields: Mapping[str, FieldType]) -> None:
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0
        self._fields = fields
        self.names: set[str] = set()
        self.uses_old = False

    def whole(self) -> _Run:
        if self._token.kind == "end":
            raise BadExpression("the condition is empty", 1)
        node = self._any()
        if self._token.kind != "end":
            raise self._unexpected("expected `and`, `or` or the end")
        return self._boolean(node).run

    # ── truth ──

    def _any(self) -> _Node:
        return self._chain(self._all, "or", _either)

    def _all(self) -> _Node:
        return self._chain(self._negation, "and", _both)

    def _chain(self, part: Callable[[], _Node], word: str, join: Callable[[Sequence[_Run]], _Run]) -> _Node:
        first = part()
        parts = [first]
        while self._takes(word):
            parts.append(self._boolean(part()))
        if len(parts) == 1:
            return first
        self._boolean(first)
        return _Node(join([each.run for each in parts]), "boolean", first.at)

    def _negation(self) -> _Node:
        at = self._token.at
        if not self._takes("not"):
            return self._comparison()
        inner = self._deeper(lambda: self._boolean(self._negation()))
        return _Node(lambda env: None if (value := inner.run(env)) is None else not value, "boolean", at)

    def _comparison(self) -> _Node:
        left = self._sum()
        sign = self._token
        if sign.kind == "sign" and sign.text in _COMPARISONS:
            self._next += 1
            right = self._sum()
            if self._token.text in _COMPARISONS:
                raise self._unexpected("a comparison has two sides; join two comparisons with `and`")
            return self._compared(left, sign, right)
        if self._takes("in"):
            return self._among(left)
        return left

    def _compared(self, left: _Node, sign: _Token, right: _Node) -> _Node:
        if "null" in (left.type, right.type):
            if sign.text not in ("==", "!="):
                raise BadExpression("null can only be compared with == and !=", sign.at)
            asked, wanted = (right if left.type == "null" else left).run, sign.text == "=="
            return _Node(lambda env: (asked(env) is None) is wanted, "boolean", left.at)
        left, right = self._alike(left, right), self._alike(right, left)
        if left.type != right.type:
            raise BadExpression(f"{_an(left.type)} cannot be compared with {_an(right.type)}", sign.at)
        if left.type in ("list", "json"):
            raise BadExpression(f"{_an(left.type)} can only be compared with null; see also contains()", sign.at)
        if left.type == "boolean" and sign.text not in ("==", "!="):
            raise BadExpression("true and false can only be compared with == and !=", sign.at)
        compare, a, b = _COMPARISONS[sign.text], left.run, right.run

        def run(env: _Env) -> bool | None:
            one, other = a(env), b(env)
            return None if one is None or other is None else compare(one, other)

        return _Node(run, "boolean", left.at)

    def _among(self, left: _Node) -> _Node:
        self._expect("[")
        choices = [self._compared(left, _Token("sign", "==", self._token.at), self._sum())]
        while self._takes(","):
            choices.append(self._compared(left, _Token("sign", "==", self._token.at), self._sum()))
        self._expect("]")
        return _Node(_either([each.run for each in choices]), "boolean", left.at)

    def _alike(self, node: _Node, other: _Node) -> _Node:
        """Check a constant text against the other side: a time must be one, and a word must be possible."""
        if node.type != "text" or not node.constant:
            return node
        value = node.run(_NOTHING)
        if other.type == "time":
            moment = _time(value)
            if moment is None:
                raise BadExpression(f"{value!r} is not a time; write 2026-03-14 or 2026-03-14T12:00:00Z", node.at)
            return _Node(lambda env: moment, "time", node.at, constant=True)
        if other.words and value not in other.words:
            raise BadExpression(f"{value!r} is not a possible value; {_hint(value, other.words)}", node.at)
        return node

    # ── numbers ──

    def _sum(self) -> _Node:
        return self._arithmetic(self._product, "+-")

    def _product(self) -> _Node:
        return self._arithmetic(self._signed, "*/")

    def _arithmetic(self, part: Callable[[], _Node], signs: str) -> _Node:
        left = part()
        rest: list[tuple[str, _Run]] = []
        while self._token.kind == "sign" and self._token.text in signs:
            sign = self._token
            self._next += 1
            right = part()
            for side in (left, right):
                if side.type != "number":
                    raise BadExpression(f"{sign.text} takes numbers, not {_an(side.type)}", side.at)
            rest.append((sign.text, right.run))
        return left if not rest else _Node(_folded(left.run, rest), "number", left.at)

    def _signed(self) -> _Node:
        at = self._token.at
        if not self._takes("-"):
            return self._primary()
        inner = self._deeper(self._signed)
        if inner.type != "number":
            raise BadExpression(f"- takes a number, not {_an(inner.type)}", inner.at)
        return _Node(lambda env: None if (value := inner.run(env)) is None else value.copy_negate(), "number", at)

    # ── values ──

    def _primary(self) -> _Node:
        token = self._token
        self._next += token.kind != "end"
        if token.kind == "number":
            if len(token.text) > _LONGEST_NUMBER:
                raise BadExpression(f"a number has at most {_LONGEST_NUMBER} characters", token.at)
            number = Decimal(token.text)
            return _Node(lambda env: number, "number", token.at, constant=True)
        if token.kind == "text":
            value = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), token.text[1:-1], flags=re.DOTALL)
            return _Node(lambda env: value, "text", token.at, constant=True)
        if token.kind == "name":
            return self._named(token)
        if token.text == "(":
            inner = self._deeper(self._any)
            self._expect(")")
            return inner
        self._next -= token.kind != "end"
        raise self._unexpected("expected a field, a value or (")

    def _named(self, token: _Token) -> _Node:
        if token.text in _CONSTANTS:
            value, kind = _CONSTANTS[token.text]
            return _Node(lambda env: value, kind, token.at, constant=True)
        if token.text in _WORDS:
            self._next -= 1
            raise self._unexpected("expected a field, a value or (")
        if self._token.text == "(":
            return self._called(token)
        if token.text in ("old", "change") and self._token.text == ".":
            self._next += 1
            name = self._name()
            return self._read_old(name) if token.text == "old" else self._read_about(name)
        field = self._field(token)
        return _Node(lambda env: _READ[field.type](env.now.get(token.text)), field.type, token.at, field.words)

    def _read_old(self, token: _Token) -> _Node:
        field = self._field(token)
        self.uses_old = True

        def run(env: _Env) -> Any:
            return None if env.old is None else _READ[field.type](env.old.get(token.text))

        return _Node(run, field.type, token.at, field.words)

    def _read_about(self, token: _Token) -> _Node:
        field = ABOUT.get(token.text)
        if field is None:
            raise BadExpression(f"a change has no {token.text!r}; choose from {', '.join(ABOUT)}", token.at)
        return _Node(lambda env: _READ[field.type](env.about.get(token.text)), field.type, token.at, field.words)

    def _called(self, function: _Token) -> _Node:
        if function.text == "changed":
            self._expect("(")
            name = self._name()
            self._field(name)
            self.uses_old = True
            self._expect(")")
            return _Node(lambda env: _has_changed(env, name.text), "boolean", function.at)
        if function.text not in _FUNCTIONS:
            known = ", ".join(f"{name}()" for name in ("changed", *_FUNCTIONS))
            raise BadExpression(f"there is no function {function.text!r}; choose from {known}", function.at)
        takes, gives, call = _FUNCTIONS[function.text]
        self._expect("(")
        given = [self._deeper(self._any)]
        while self._takes(","):
            given.append(self._deeper(self._any))
        self._expect(")")
        if len(given) != len(takes):
            raise BadExpression(f"{function.text}() takes {len(takes)} values, not {len(given)}", function.at)
        for node, kinds in zip(given, takes, strict=True):
            if node.type not in kinds:
                raise BadExpression(f"{function.text}() takes {_an(kinds[0])} here, not {_an(node.type)}", node.at)
        runs = [node.run for node in given]

        def run(env: _Env) -> Any:
            values = [each(env) for each in runs]
            return None if None in values else call(*values)

        return _Node(run, gives, function.at)

    def _field(self, token: _Token) -> FieldType:
        field = self._fields.get(token.text)
        if field is None:
            raise BadExpression(f"there is no field {token.text!r}; {_hint(token.text, self._fields)}", token.at)
        self.names.add(token.text)
        return field

    # ── tokens ──

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _takes(self, text: str) -> bool:
        token = self._token
        if token.kind in ("name", "sign") and token.text == text:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._unexpected(f"expected {text}")

    def _name(self) -> _Token:
        token = self._token
        if token.kind != "name":
            raise self._unexpected("expected the name of a field")
        self._next += 1
        return token

    def _deeper(self, part: Callable[[], _Node]) -> _Node:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadExpression(f"it is nested more than {DEEPEST} levels deep", self._token.at)
        node = part()
        self._depth -= 1
        return node

    def _boolean(self, node: _Node) -> _Node:
        if node.type != "boolean":
            raise BadExpression(f"expected a comparison, and this is {_an(node.type)}", node.at)
        return node

    def _unexpected(self, wanted: str) -> BadExpression:
        token = self._token
        found = "the condition ends" if token.kind == "end" else f"found {token.text!r}"
        return BadExpression(f"{wanted}, but {found}", token.at)


_NOTHING = _Env({}, None, {})
_WORDS = frozenset({"and", "or", "not", "in"})
_CONSTANTS: Mapping[str, tuple[Any, Type]] = {
    "true": (True, "boolean"),
    "false": (False, "boolean"),
    "null": (None, "null"),
}
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def _hint(name: str, known: Iterable[str]) -> str:
    near = near_names(name[:_LONGEST_NUMBER], known)
    return f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(sorted(known))}"


def _an(kind: Type) -> str:
    return {"list": "a list", "json": "an object", "null": "null", "boolean": "true or false"}.get(kind, f"a {kind}")


# ── running. None is a value that is not known. ──


def _both(parts: Sequence[_Run]) -> _Run:
    def run(env: _Env) -> bool | None:
        known: bool | None = True
        for each in parts:
            value = each(env)
            if value is False:
                return False
            known = None if value is None else known
        return known

    return run


def _either(parts: Sequence[_Run]) -> _Run:
    def run(env: _Env) -> bool | None:
        known: bool | None = False
        for each in parts:
            value = each(env)
            if value is True:
                return True
            known = None if value is None else known
        return known

    return run


def _folded(first: _Run, rest: Sequence[tuple[str, _Run]]) -> _Run:
    calls = {
        "+": _ARITHMETIC.add,
        "-": _ARITHMETIC.subtract,
        "*": _ARITHMETIC.multiply,
        "/": _ARITHMETIC.divide,
    }

    def run(env: _Env) -> Decimal | None:
        total = first(env)
        for sign, each in rest:
            value = each(env)
            if total is None or value is None:
                return None
            try:
                total = calls[sign](total, value)
            except DecimalException:  # division by zero, a number out of range
                return None
        return total if total is None or total.is_finite() else None

    return run


def _has_changed(env: _Env, name: str) -> bool | None:
    return None if env.old is None else env.old.get(name) != env.now.get(name)


def _contains(whole: Any, part: str) -> bool:
    return part.casefold() in whole.casefold() if isinstance(whole, str) else part in whole


_FUNCTIONS: Mapping[str, tuple[Sequence[Sequence[Type]], Type, Callable[..., Any]]] = {
    "contains": ((("text", "list"), ("text",)), "boolean", _contains),
    "lower": ((("text",),), "text", lambda text: text.lower()),
    "length": ((("list", "text"),), "number", lambda value: Decimal(len(value))),
    "abs": ((("number",),), "number", lambda number: number.copy_abs()),
}


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    text = str(value)
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        number = Decimal(text)
    except DecimalException:
        return None
    return number if number.is_finite() else None


def _time(value: Any) -> datetime | None:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return None


_READ: Mapping[Type, Callable[[Any], Any]] = {
    "number": _number,
    "text": lambda value: value if isinstance(value, str) else None,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "time": _time,
    "list": lambda value: value if isinstance(value, list) else None,
    "json": lambda value: value,
    "null": lambda value: None,
}
