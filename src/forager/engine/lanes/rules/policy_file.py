"""Reads and writes the policy file: YAML with rules per domain. Pure, except for `shipped_policies`.

All mistakes in a file are reported at once, each with its line and a correction. A file is not trusted: its size and
depth are bounded, tags create no objects, and nothing in it is expanded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, TypeGuard

import yaml
from pydantic import ValidationError

from forager.core.errors import FieldError, Rejected
from forager.core.hosts import checked_host, domains_of, one_spelling
from forager.core.invalid import plain_message
from forager.core.rules import FIELDS, AllowedHours, Rules

DEFAULT = "default"
DOMAINS = "domains"
MOST_CHARACTERS = 1_000_000
DEEPEST = 10
"""A valid file nests four deep."""
MOST_ERRORS = 50
SHIPPED = "domain_policies.yaml"

_NUMBER = re.compile(r"[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Policies:
    """Rules by domain (in its canonical spelling), and the defaults for all others."""

    domains: Mapping[str, Rules] = field(default_factory=dict)
    default: Rules = field(default_factory=Rules)

    def lane_name(self, host: str) -> str:
        """Return the longest domain with its own rules that contains the host, else the host itself (see
        `core/hosts.py`)."""
        spelled = one_spelling(host)
        return next((name for name in domains_of(spelled) if name in self.domains), spelled)


def parse_policies(text: str, source: str) -> Policies:
    """Parse the text of a policy file. `source` names it in errors. Raises `Rejected` with all mistakes."""
    wrong: list[_Wrong] = []
    root = _composed(text, wrong)
    policies = None if wrong else _policies(root, wrong)
    if wrong or policies is None:
        raise _rejected(sorted(wrong, key=lambda each: each.line), source)
    return policies


def to_yaml(policies: Policies) -> str:
    """Return YAML that `parse_policies` reads as the same policies."""
    domains = {name: _plain(rules) for name, rules in policies.domains.items()}
    if not policies.default.is_silent():
        domains[DEFAULT] = _plain(policies.default)
    return yaml.safe_dump({DOMAINS: domains}, sort_keys=False, allow_unicode=True)


def shipped_policies() -> Policies:
    """Return the policies of the file included in the package."""
    return parse_policies(files("forager.engine.lanes.rules").joinpath(SHIPPED).read_text("utf-8"), SHIPPED)


# ── from text to nodes ──


@dataclass(frozen=True, slots=True)
class _Wrong:
    line: int
    where: str
    message: str


def _composed(text: str, wrong: list[_Wrong]) -> yaml.Node | None:
    if len(text) > MOST_CHARACTERS:
        wrong.append(_Wrong(1, "file", f"it has more than {MOST_CHARACTERS:,} characters; is it the right file?"))
        return None
    try:
        for event, depth in _events(text):
            if depth > DEEPEST:
                wrong.append(
                    _Wrong(_line(event), "file", "it nests too deep; rules are `domains: {name: {key: value}}`")
                )
                return None
        root: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        wrong.append(_syntax(error))
        return None
    if root is None:
        wrong.append(_Wrong(1, "file", f"it is empty; write `{DOMAINS}:` and below it one entry for each domain"))
    return root


def _events(text: str) -> Iterator[tuple[Any, int]]:
    """Read events without recursion, so that a deeply nested file cannot exhaust the stack before it is checked."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        yield event, depth


def _syntax(error: yaml.YAMLError) -> _Wrong:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return _Wrong(
        mark.line + 1 if mark else 1, "file", f"it is not YAML: {problem}; check indentation, colons and quotes"
    )


# ── from nodes to policies ──


def _policies(root: yaml.Node | None, wrong: list[_Wrong]) -> Policies | None:
    top = dict(_entries(root, "file", wrong, what=f"`{DOMAINS}:` and below it one entry for each domain"))
    for key, (line, _) in top.items():
        if key != DOMAINS:
            wrong.append(_Wrong(line, key, f"unknown key; the only key at the top is `{DOMAINS}`"))
    if DOMAINS not in top:
        if not wrong:
            wrong.append(_Wrong(1, DOMAINS, f"it is missing; write `{DOMAINS}:` and below it an entry for each domain"))
        return None
    domains: dict[str, Rules] = {}
    lines: dict[str, int] = {}
    for written, (line, node) in _entries(top[DOMAINS][1], DOMAINS, wrong, what="one entry for each domain"):
        name = _domain(written, line, wrong)
        if name is None:
            continue
        if name in lines:
            wrong.append(
                _Wrong(line, _at(written), f"it has rules in line {lines[name]} already; write them in one place")
            )
        else:
            lines[name] = line
            domains[name] = _rules(written, line, node, wrong)
        if len(wrong) > MOST_ERRORS:
            break
    default = domains.pop(DEFAULT, Rules())
    return Policies(domains, default)


def _domain(written: str, line: int, wrong: list[_Wrong]) -> str | None:
    if written == DEFAULT:
        return DEFAULT
    try:
        return checked_host(written)
    except ValueError as error:
        wrong.append(_Wrong(line, _at(written), f"{written[:80]!r} is not a host name: {error}"))
        return None


def _rules(domain: str, line: int, node: yaml.Node, wrong: list[_Wrong]) -> Rules:
    raw: dict[str, Any] = {}
    lines: dict[tuple[str, ...], int] = {}
    for key, (at, value) in _entries(node, _at(domain), wrong, what="rules such as `tokens_per_interval: 2`"):
        lines[(key,)] = at
        if isinstance(value, yaml.MappingNode):
            inner = list(_entries(value, f"{_at(domain)}.{key}", wrong, what="`start` and `end`"))
            lines.update({(key, name): below for name, (below, _) in inner})
            raw[key] = {name: _scalar(below) for name, (_, below) in inner}
        else:
            raw[key] = _scalar(value)
    try:
        return Rules.model_validate(raw)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            place = tuple(str(part) for part in problem["loc"])
            at = next((lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in lines), line)
            wrong.append(_Wrong(at, ".".join((_at(domain), *place)), _message(place, problem)))
        return Rules()


def _entries(
    node: yaml.Node | None, where: str, wrong: list[_Wrong], *, what: str
) -> Iterator[tuple[str, tuple[int, yaml.Node]]]:
    """Return the entries of a mapping with their lines; none if the mapping is empty."""
    if _is_plain(node) and node.value in ("", "~", "null"):
        return
    if not isinstance(node, yaml.MappingNode):
        wrong.append(_Wrong(_line(node), where, f"it should have {what} below it"))
        return
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = _line(key)
        if not isinstance(key, yaml.ScalarNode):
            wrong.append(_Wrong(line, where, "a key should be one word"))
        elif key.value in seen:
            wrong.append(
                _Wrong(line, f"{where}.{key.value}", f"it is in line {seen[key.value]} already; keep one of them")
            )
        else:
            seen[key.value] = line
            yield key.value, (line, value)


def _scalar(node: yaml.Node) -> Any:
    """Read a scalar. Numbers are decimal, unlike YAML's reading of `08` or `6:00`; quoted values are text."""
    if isinstance(node, yaml.SequenceNode):
        return [item.value if isinstance(item, yaml.ScalarNode) else "…" for item in node.value[:100]]
    text = str(node.value) if isinstance(node, yaml.ScalarNode) else "…"
    if not _is_plain(node):
        return text
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if _NUMBER.fullmatch(text) and len(text) < 40:
        digits = text.replace("_", "")
        return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
    return text


def _is_plain(node: yaml.Node | None) -> TypeGuard[yaml.ScalarNode]:
    return isinstance(node, yaml.ScalarNode) and not node.style


# ── messages ──


def _message(place: tuple[str, ...], finding: Mapping[str, Any]) -> str:
    known = tuple(AllowedHours.model_fields) if place[0] == "allowed_hours" and len(place) > 1 else FIELDS
    if finding["type"] == "extra_forbidden":
        if place[-1] == "<<":
            return "merging with << is not read; write the rules out, or name them once with & and use them with *"
        close = get_close_matches(place[-1], known, 1)
        return f"unknown rule; did you mean {close[0]}?" if close else f"unknown rule; choose from {', '.join(known)}"
    example = Rules.model_fields[place[0]].examples
    whole = place == ("allowed_hours",) and finding["type"] in ("model_type", "model_attributes_type")
    reason = "must be a pair of start and end" if whole else plain_message(finding)
    return f"{reason}; such as {place[0]}: {_shown(example)}" if example else reason


def _shown(examples: Iterable[Any]) -> str:
    return yaml.safe_dump(next(iter(examples)), default_flow_style=True).removesuffix("...\n").strip()


def _rejected(wrong: list[_Wrong], source: str) -> Rejected:
    kept = wrong[:MOST_ERRORS]
    fields = [FieldError(each.where, f"line {each.line}: {each.message}") for each in kept]
    lines = [f"line {each.line}: {each.where}: {each.message}" for each in kept]
    if len(wrong) > MOST_ERRORS:
        lines.append("and more; correct these first")
    if len(lines) == 1:
        return Rejected(f"{source}, {lines[0]}.", fields=fields)
    return Rejected("\n- ".join([f"{source}: {len(kept)} things are wrong:", *lines]), fields=fields)


def _plain(rules: Rules) -> dict[str, Any]:
    values = rules.model_dump(mode="json", exclude_none=True)
    return {
        key: int(value) if isinstance(value, float) and value.is_integer() else value for key, value in values.items()
    }


def _at(domain: str) -> str:
    return f"{DOMAINS}.{domain[:80]}"


def _line(node: Any) -> int:
    return node.start_mark.line + 1 if node is not None else 1
