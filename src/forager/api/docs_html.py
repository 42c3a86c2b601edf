"""Renders the OpenAPI document as HTML. Pure. Everything taken from the document is escaped."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from typing import Any

from forager.api.docs_script import SCRIPT
from forager.api.docs_style import STYLE

Part = Mapping[str, Any]

_BOUNDS = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "entries"),
    ("minimum", "maximum", ""),
)
"""A lower bound, an upper bound, and what they count."""


TICKET = b"{page-ticket}"
"""Stands in the page where the answer to a request has its ticket."""
_KEY = (
    "<p><label>The forms on this page work for twelve hours after it was loaded. To use another service key:"
    ' <input id="key" type="password" autocomplete="off"></label></p>'
)


def page_of(document: Part) -> str:
    """Return the whole page: the contents on the left, every operation on the right, grouped by tag."""
    info = document["info"]
    groups = {tag["name"]: list(_of_tag(document, tag["name"])) for tag in document["tags"]}
    sections = "".join(_section(document, tag, groups[tag["name"]]) for tag in document["tags"])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])} API</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="ticket" content="{TICKET.decode()}"><style>{STYLE}</style></head>\n<body>'
        f"{_contents(groups)}<main><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
        f'{_text(info["description"])}<p><a href="/openapi.json">The same for programs: openapi.json</a></p>'
        f"{_KEY}{sections}</main><script>{SCRIPT}</script></body></html>\n"
    )


def _of_tag(document: Part, tag: str) -> Iterator[tuple[str, str, Part]]:
    """(method, path, operation)"""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] == tag:
                yield method, path, operation


def _contents(groups: Mapping[str, Sequence[tuple[str, str, Part]]]) -> str:
    listed = "".join(
        f'<h2><a href="#{_slug(tag)}">{escape(tag)}</a></h2><ul>'
        + "".join(
            f'<li><a href="#{escape(operation["operationId"])}">{escape(operation["summary"])}</a></li>'
            for _, _, operation in operations
        )
        + "</ul>"
        for tag, operations in groups.items()
    )
    return f'<nav aria-label="Contents"><details open><summary>Contents</summary>{listed}</details></nav>'


def _section(document: Part, tag: Part, operations: Iterable[tuple[str, str, Part]]) -> str:
    articles = "\n".join(_article(document, *operation) for operation in operations)
    name = tag["name"]
    return f'\n<section id="{_slug(name)}"><h2>{escape(name)}</h2>{_text(tag["description"])}{articles}</section>'


def _article(document: Part, method: str, path: str, operation: Part) -> str:
    name = escape(operation["operationId"])
    is_open = "" if operation["security"] else '<span class="open">open without the key</span>'
    return (
        f'<article id="{name}"><h3><a href="#{name}">{escape(operation["summary"])}</a></h3>'
        f'<div class="route"><span class="method {escape(method)}">{escape(method.upper())}</span>'
        f"<code>{escape(path)}</code>{is_open}</div>{_text(operation.get('description', ''))}"
        f"{_parameters(document, operation.get('parameters', ()))}{_body(document, operation.get('requestBody'))}"
        f"{_responses(operation['responses'])}{_try(document, method, path, operation)}</article>"
    )


def _try(document: Part, method: str, path: str, operation: Part) -> str:
    """Return a form that sends this request: a field per parameter, and the body with its first example."""
    fields = "".join(_field(document, each) for each in operation.get("parameters", ()))
    body = operation.get("requestBody")
    if body is not None:
        given = _examples(document, body)
        text = json.dumps(given[0], indent=2, ensure_ascii=False) if given else "{}"
        rows = min(16, text.count("\n") + 2)
        fields += f'<label>Body <textarea rows="{rows}" spellcheck="false">{escape(text)}</textarea></label>'
    return (
        f'<details class="try"><summary>Try it</summary><form data-method="{escape(method.upper())}" '
        f'data-path="{escape(path)}">{fields}<button>Send</button><output></output></form></details>'
    )


def _field(document: Part, parameter: Part) -> str:
    name, schema = escape(parameter["name"]), parameter["schema"]
    must = " required" if parameter.get("required") else ""
    default = schema.get("default")
    hint = "" if default is None else f' placeholder="{escape(str(default))}"'
    return (
        f'<label><code>{name}</code> <input name="{name}" data-in="{escape(parameter["in"])}"{hint}{must} '
        f'title="{escape(_kind(document, schema))}"></label>'
    )


def _examples(document: Part, body: Part) -> list[Any]:
    content = body["content"]["application/json"]
    schema = _resolved(document, content["schema"])
    return [example["value"] for example in content.get("examples", {}).values()] or list(schema.get("examples", ()))


def _parameters(document: Part, parameters: Sequence[Part]) -> str:
    if not parameters:
        return ""
    rows = [
        _row(document, each["name"], each["schema"], where=each["in"], must=bool(each.get("required")))
        for each in parameters
    ]
    return f"<h4>Parameters</h4>{_table(('name', 'value', ''), rows)}"


def _body(document: Part, body: Part | None) -> str:
    if body is None:
        return ""
    content = body["content"]["application/json"]
    schema = _resolved(document, content["schema"])
    must = schema.get("required", ())
    rows = [_row(document, name, each, must=name in must) for name, each in schema.get("properties", {}).items()]
    shown = "".join(_code(example) for example in _examples(document, body))
    optional = "" if body.get("required") else " (may be left out)"
    return f"<h4>Body{optional}</h4>{_table(('field', 'value', ''), rows)}{shown}"


def _responses(responses: Mapping[str, Part]) -> str:
    rows = [
        f"<tr><td><code>{escape(status)}</code></td><td>{_inline(response['description'])}</td></tr>"
        for status, response in responses.items()
    ]
    examples = chain.from_iterable(
        ((status, content["example"]) for content in response.get("content", {}).values() if "example" in content)
        for status, response in responses.items()
    )
    shown = "".join(
        f"<details><summary>Example of {escape(status)}</summary>{_code(example)}</details>"
        for status, example in examples
    )
    return f'<h4>Answers</h4><div class="table"><table class="answers">{"".join(rows)}</table></div>{shown}'


def _row(document: Part, name: str, schema: Part, *, must: bool, where: str = "") -> str:
    source = f' <span class="open">{escape(where)}</span>' if where in ("path", "header") else ""
    needed = ' <span class="must">required</span>' if must else ""
    default = schema.get("default")
    usual = "" if default is None else f" Default: <code>{escape(json.dumps(default))}</code>"
    return (
        f"<tr><td><code>{escape(name)}</code>{source}{needed}</td><td>{escape(_kind(document, schema))}</td>"
        f"<td>{_inline(_about(schema))}{usual}</td></tr>"
    )


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    if not rows:
        return ""
    head = f"<tr>{''.join(f'<th>{escape(each)}</th>' for each in heads)}</tr>"
    return f'<div class="table"><table>{head}{"".join(rows)}</table></div>'


def _about(schema: Part) -> str:
    """Return a value's description: its own, or that of its non-null alternative."""
    descriptions = (each["description"] for each in (schema, *schema.get("anyOf", ())) if "description" in each)
    return str(next(descriptions, ""))


def _kind(document: Part, schema: Part) -> str:
    """Describe a value's type in a few words."""
    if "$ref" in schema or "allOf" in schema:
        schema = _resolved(document, schema)
    if "anyOf" in schema:
        kinds = (_kind(document, each) for each in schema["anyOf"] if each.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema or "const" in schema:
        return ", ".join(json.dumps(each) for each in schema.get("enum", [schema.get("const")]))
    kind = schema.get("format") or schema.get("type", "anything")
    if kind == "array":
        kind = f"list of {_kind(document, schema.get('items', {}))}"
    return ", ".join((str(kind), *_bounds(schema)))


def _bounds(schema: Part) -> Iterator[str]:
    """Yield the limits of a value: "1 to 200 characters", "at least 0", "matches ^[A-Z]{2}$"."""
    for lower, upper, unit in _BOUNDS:
        least, most = schema.get(lower), schema.get(upper)
        if least is not None and most is not None:
            words = f"{_number(least)} to {_number(most)}" if least != most else f"exactly {_number(least)}"
        elif least is not None:
            words = f"at least {_number(least)}"
        elif most is not None:
            words = f"at most {_number(most)}"
        else:
            continue
        yield f"{words} {unit}".rstrip()
    if "pattern" in schema:
        yield f"matches {schema['pattern']}"


def _resolved(document: Part, schema: Part) -> Part:
    """Follow a `$ref`; among alternatives, choose the object."""
    while True:
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema and any("$ref" in each for each in schema["anyOf"]):
            schema = next(each for each in schema["anyOf"] if "$ref" in each)
        elif "allOf" in schema:
            schema = schema["allOf"][0]
        else:
            return schema


def _code(example: Any) -> str:
    text = example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)
    return f"<pre>{escape(text)}</pre>"


def _text(text: str) -> str:
    return "".join(f"<p>{_inline(part)}</p>" for part in text.split("\n\n") if part.strip())


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _number(bound: Any) -> str:
    if isinstance(bound, str):
        return bound
    return f"{bound:,.0f}" if bound == int(bound) else f"{bound:,}"


def _slug(tag: str) -> str:
    return "tag-" + re.sub("[^a-z0-9]+", "-", tag.lower())
