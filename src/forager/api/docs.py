"""`/openapi.json`, and `/docs/plain`: the OpenAPI document as one HTML page, with a form to try each call.

A browser that opens `/docs` gets the reference of the dashboard, with an address for each operation; a program gets
this page there as well.

The page loads no other file, so it works offline, and runs no script but its own.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from forager.sdk.http.routes import Router

# The script of `/docs`: sends the request of a "Try it" form and shows the answer.
#
# The page has a ticket with which its forms work for twelve hours. A service key that is typed on the page stays in
# that field: it is stored nowhere. Answers are shown as text, so nothing in them can become part of the page.


SCRIPT = """
'use strict';
function filled(form, where) {
  return [...form.querySelectorAll(`[data-in="${where}"]`)].filter((field) => field.value !== '');
}
function requestOf(form) {
  let path = form.dataset.path;
  for (const field of filled(form, 'path')) {
    path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
  }
  const query = new URLSearchParams();
  for (const field of filled(form, 'query')) {
    query.append(field.name, field.value);
  }
  const headers = {};
  for (const field of filled(form, 'header')) {
    headers[field.name] = field.value;
  }
  const key = document.getElementById('key').value;
  if (key) {
    headers['X-Service-Key'] = key;
  } else {
    headers['X-Page-Ticket'] = document.querySelector('meta[name="ticket"]').content;
  }
  const body = form.querySelector('textarea');
  const sent = body && body.value.trim() ? body.value : undefined;
  if (sent) {
    headers['Content-Type'] = 'application/json';
  }
  return [query.size ? `${path}?${query}` : path, { method: form.dataset.method, headers, body: sent }];
}
async function send(form) {
  const shown = form.querySelector('output');
  const [url, options] = requestOf(form);
  shown.textContent = 'Sending …';
  const began = performance.now();
  try {
    const answer = await fetch(url, options);
    const text = await answer.text();
    let body = text;
    try {
      body = JSON.stringify(JSON.parse(text), null, 2);
    } catch { /* not JSON: shown as it is */ }
    const took = Math.round(performance.now() - began);
    const cut = body.length > 100000 ? body.slice(0, 100000) + '\\n… (cut)' : body;
    shown.textContent = `${options.method} ${url}\\n${answer.status} ${answer.statusText}, ${took} ms\\n\\n${cut}`;
  } catch (error) {
    shown.textContent = `No answer: ${error.message}`;
  }
}
if (matchMedia('(max-width: 60rem)').matches) {
  document.querySelector('nav details').open = false;  // above the text it would fill several screens
}
document.addEventListener('submit', (event) => {
  event.preventDefault();
  send(event.target);
});
"""


# The style sheet of `/docs`, light and dark. It refers to no external file.


STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fff; --panel: #f6f7f9; --line: #e1e4e8; --text: #1d2329; --faint: #5b6570; --link: #0b5cad;
  --get: #1a6fb5; --post: #1c7d45; --put: #8f5f00; --patch: #0d7377; --delete: #b3322a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --panel: #1c2128; --line: #30363d; --text: #dde3ea; --faint: #97a2ae; --link: #6cb2f7;
    --get: #6cb2f7; --post: #63c98b; --put: #e0b04c; --patch: #5cc5c9; --delete: #f0857d;
  }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; scroll-padding-top: 1rem; }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto; } }
body { margin: 0; background: var(--paper); color: var(--text); font: 15px/1.55 system-ui, sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .88em; }
p code, td code, li code { background: var(--panel); border-radius: 4px; padding: .1em .3em; overflow-wrap: anywhere; }
nav { padding: 1.2rem; border-bottom: 1px solid var(--line); background: var(--panel); }
nav summary { font-weight: 600; }
nav h2 { margin: 1rem 0 .2rem; font-size: .78rem; letter-spacing: .06em; text-transform: uppercase; }
nav h2 a { color: var(--faint); }
nav ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: block; padding: .12rem 0; color: var(--text); font-size: .9rem; }
main { max-width: 58rem; padding: 1.5rem 1.2rem 4rem; margin: 0 auto; }
h1 { margin: 0 0 .5rem; font-size: 1.7rem; }
h1 small { color: var(--faint); font-size: .9rem; font-weight: 400; }
section > h2 { margin: 3rem 0 .2rem; font-size: 1.35rem; text-transform: capitalize; }
section > p { color: var(--faint); margin: 0 0 1rem; }
article { border: 1px solid var(--line); border-radius: 8px; margin: 1rem 0; padding: .9rem 1.1rem; }
article:target { border-color: var(--link); box-shadow: 0 0 0 1px var(--link); }
article h3 { margin: 0; font-size: 1.02rem; }
article h3 a { color: inherit; }
article h4 { margin: 1.1rem 0 .3rem; color: var(--faint); font-size: .85rem; font-weight: 600; }
article p { margin: .5rem 0; }
.route { display: flex; flex-wrap: wrap; align-items: baseline; gap: .2rem .7rem; margin: .2rem 0 .5rem; }
.route code { overflow-wrap: anywhere; }
.method { font: 700 .78rem/1.5 ui-monospace, Menlo, Consolas, monospace; letter-spacing: .03em; }
.get { color: var(--get); } .post { color: var(--post); } .put { color: var(--put); }
.patch { color: var(--patch); } .delete { color: var(--delete); }
.open { color: var(--faint); font-size: .85rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { text-align: left; color: var(--faint); font-weight: 500; font-size: .8rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td:first-child { white-space: nowrap; }
td:nth-child(2):not(:last-child) { color: var(--faint); min-width: 8rem; max-width: 16rem; overflow-wrap: anywhere; }
.answers td:first-child { width: 4rem; }
.must { color: var(--delete); font-size: .8rem; }
pre {
  margin: .3rem 0; padding: .7rem .9rem; background: var(--panel); border-radius: 6px;
  overflow-x: auto; max-height: 24rem; line-height: 1.45;
}
summary { cursor: pointer; color: var(--link); font-size: .9rem; }
article details { margin-top: .5rem; }
form label { display: block; margin: .5rem 0; font-size: .9rem; }
input, textarea, button { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: 6px; padding: .3rem .5rem; }
form input { min-width: 16rem; max-width: 100%; }
textarea { display: block; width: 100%; font: .85rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
button { cursor: pointer; background: var(--link); border-color: var(--link); color: var(--paper); }
output { display: block; margin-top: .6rem; white-space: pre-wrap; overflow-wrap: anywhere; max-height: 30rem;
  overflow-y: auto; font: .85rem/1.45 ui-monospace, Menlo, Consolas, monospace; }
output:not(:empty) { background: var(--panel); border-radius: 6px; padding: .7rem .9rem; }
@media (max-width: 40rem) {
  th { display: none; }
  tr, td { display: block; }
  tr { padding: .4rem 0; border-bottom: 1px solid var(--line); }
  td, td:nth-child(2):not(:last-child) { border: 0; padding: .05rem 0; max-width: none; }
  td:empty { display: none; }
}
@media (min-width: 60rem) {
  body { display: grid; grid-template-columns: 18rem 1fr; }
  nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; border: 0; border-right: 1px solid var(--line); }
  main { width: 100%; padding: 2rem 2.5rem 6rem; margin: 0; }
}
"""


# Renders the OpenAPI document as HTML. Pure. Everything taken from the document is escaped.


Part = Mapping[str, Any]

_BOUNDS = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "entries"),
    ("minimum", "maximum", ""),
)
"""A lower bound, an upper bound, and what they count."""


TICKET = b"{page-ticket}"
"""Placeholder in the page. Each answer has a new ticket in its place."""
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


def _hash_of(text: str) -> str:
    """Return the source expression that allows exactly this style sheet or script in the policy below."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src {_hash_of(STYLE)}; script-src {_hash_of(SCRIPT)};"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def docs_router() -> Router:
    router = Router()
    made: list[bytes] = []
    document: list[bytes] = []

    @router.get("/openapi.json", include_in_schema=False)
    async def show_document(request: Request) -> Response:
        """Build the document at the first request, in a thread, so that the event loop is not blocked."""
        if not document:
            document.append(await asyncio.to_thread(lambda: orjson.dumps(request.app.openapi())))
        return Response(document[0], media_type="application/json")

    @router.get("/docs", include_in_schema=False)
    @router.get("/docs/plain", include_in_schema=False)
    async def show_docs(request: Request) -> Response:
        """Render the page at the first request and keep it. Each answer gets its own ticket for the forms."""
        if not made:
            made.append(await asyncio.to_thread(lambda: page_of(request.app.openapi()).encode()))
        ticket: str = request.app.state.service_key.ticket("docs", request.scope)
        return Response(made[0].replace(TICKET, ticket.encode()), headers=HEADERS, media_type="text/html")

    @router.get("/", include_in_schema=False)
    async def show_start() -> Response:
        """Lead people who open the address that `forager up` prints to the documentation."""
        return RedirectResponse("/docs", status_code=307)

    return router
