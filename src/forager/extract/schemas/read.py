"""Reads a page by a schema: each value with its source and confidence. Pure.

A value is always text of the page, turned into its type: what the page does not show is never given. A value that does
not fit its type, format or bounds is left out and named in `invalid`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

import orjson
from selectolax.lexbor import LexborNode

from forager.extract.html.document import Document
from forager.extract.schemas.spec import PageSchema, SchemaField, SchemaItems, compiled, steps_of
from forager.extract.text.strings import one_line

MOST_BLOCKS, MOST_FOUND = 60, 1_000
LONGEST_VALUE = 100_000
CONFIDENCE = {"css": 0.85, "xpath": 0.85, "json": 0.95, "meta": 0.9, "regex": 0.7}
_ASSIGNED = re.compile(r"(?:window\.)?([A-Za-z_$][\w$.]{0,60})\s{0,4}=\s{0,4}(?=[\[{])")
_NUMBER = re.compile(r"[-+\u2212]?\d[\d.,' \u00a0\u202f]*")
_EMAIL = re.compile(r"[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+")
_TRUE, _FALSE = frozenset({"true", "yes", "1", "on"}), frozenset({"false", "no", "0", "off"})


@dataclass(frozen=True, slots=True)
class FieldRead:
    value: Any
    source: str
    confidence: float


@dataclass(slots=True)
class SchemaRead:
    """The result of reading one page."""

    values: dict[str, FieldRead] = field(default_factory=dict)
    """Only what was found."""
    invalid: dict[str, str] = field(default_factory=dict)
    """Maps a field to the reason why its text is not a value of its type."""
    items: list[dict[str, Any]] | None = None
    next: str | None = None
    """The address of the next page of the list."""


def read_schema(schema: PageSchema, document: Document) -> SchemaRead:
    """Read a page. It never raises over a page, however broken."""
    read = SchemaRead()
    blocks: list[tuple[str, Any]] | None = None
    for name, wanted in schema.fields.items():
        if wanted.json_path and blocks is None:
            blocks = list(json_blocks(document))
        for source, found in found_by(wanted, document, blocks or []):
            value, why = typed(wanted, found, document)
            if why is None:
                way = source.partition(":")[0]
                read.values[name] = FieldRead(value, source, wanted.confidence or CONFIDENCE[way])
                read.invalid.pop(name, None)
                break
            read.invalid.setdefault(name, why)
    if schema.items is not None:
        read.items = list(_items(schema.items, document))
    if schema.next is not None:
        node = document.tree.css_first(schema.next)
        href = node.attributes.get("href") if node is not None else None
        read.next = document.absolute(href) if href else None
    return read


def found_by(wanted: SchemaField, document: Document, blocks: list[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield what each way of a field finds, the most reliable first: (source, texts or JSON values)."""
    if wanted.json_path:
        for name, data in blocks:
            values = [each for each in along(data, steps_of(wanted.json_path)) if each is not None]
            if values:
                yield f"json:{name}{wanted.json_path}", _narrowed(wanted, values)
                break
    if wanted.meta and (text := document.metas.get(wanted.meta.lower())):
        yield f"meta:{wanted.meta}", _narrowed(wanted, [text])
    if wanted.css:
        texts = [text for node in document.tree.css(wanted.css)[:MOST_FOUND] if (text := _of(node, wanted.attr))]
        if texts:
            yield f"css:{wanted.css}{f'@{wanted.attr}' if wanted.attr else ''}", _narrowed(wanted, texts)
    if wanted.xpath and (texts := _by_xpath(document, wanted.xpath)):
        yield f"xpath:{wanted.xpath}", _narrowed(wanted, texts)
    if wanted.regex and not any((wanted.css, wanted.xpath, wanted.json_path, wanted.meta)):
        yield f"regex:{wanted.regex}", _narrowed(wanted, [document.text])


def _narrowed(wanted: SchemaField, values: list[Any]) -> list[Any]:
    """Return what the pattern of a field finds in these values; the values themselves if it has none."""
    if wanted.regex is None:
        return values
    pattern, found = compiled(wanted.regex), []
    for value in values:
        for match in pattern.finditer(value if isinstance(value, str) else str(value)):
            found.append(match.group(1) if pattern.groups else match.group(0))
            if len(found) == MOST_FOUND:
                return found
    return [each for each in found if each is not None]


def _of(node: LexborNode, attr: str | None) -> str:
    if attr is not None:
        return (node.attributes.get(attr) or "").strip()[:LONGEST_VALUE]
    return one_line(node.text(separator=" "))[:LONGEST_VALUE]


def _by_xpath(document: Document, path: str) -> list[Any]:
    from lxml import etree, html

    try:
        found = html.document_fromstring(document.bounded.encode()).xpath(path)
    except (etree.LxmlError, ValueError):
        return []
    nodes = found if isinstance(found, list) else [found]
    texts = [one_line(each.text_content()) if hasattr(each, "text_content") else str(each) for each in nodes]
    return [text for text in texts if text][:MOST_FOUND]


def _items(wanted: SchemaItems, document: Document) -> Iterator[dict[str, Any]]:
    for node in document.tree.css(wanted.css)[: wanted.most]:
        row: dict[str, Any] = {}
        for name, each in wanted.fields.items():
            if each.css:
                texts = [text for inner in node.css(each.css)[:MOST_FOUND] if (text := _of(inner, each.attr))]
            else:
                texts = [_of(node, each.attr)]
            value, why = typed(each, _narrowed(each, texts), document)
            row[name] = value if why is None else None
        if any(value is not None for value in row.values()):
            yield row


# JSON of the page: JSON-LD, scripts of JSON, and objects that scripts assign to a name.


def json_blocks(document: Document) -> Iterator[tuple[str, Any]]:
    """Yield (name, data) of each block of JSON, JSON-LD first."""
    count = 0
    for text in document.json_ld():
        for each in _flat(_loaded(text)):
            count += 1
            yield "ld+json", each
    for node in document.tree.css("script")[:500]:
        if count >= MOST_BLOCKS:
            return
        kind = (node.attributes.get("type") or "").lower()
        text = node.text() or ""
        if "ld+json" in kind:
            continue
        if "json" in kind:
            data, name = _loaded(text), f"#{node.attributes.get('id') or 'json'}"
        elif match := _ASSIGNED.search(text, 0, 2_000):
            data, name = _assigned(text[match.end() :]), match[1]
        else:
            continue
        if isinstance(data, dict | list):
            count += 1
            yield name, data


def _flat(data: Any) -> list[Any]:
    if isinstance(data, list):
        return data[:MOST_BLOCKS]
    if isinstance(data, dict) and isinstance(data.get("@graph"), list):
        return [data, *data["@graph"][:MOST_BLOCKS]]
    return [data] if data is not None else []


def _loaded(text: str) -> Any:
    try:
        return orjson.loads(text.strip().rstrip(";"))
    except ValueError:
        return None


def _assigned(text: str) -> Any:
    import json

    try:
        return json.JSONDecoder().raw_decode(text)[0]
    except (ValueError, RecursionError):
        return None


def along(data: Any, steps: tuple[str, ...]) -> list[Any]:
    """Return the values at a JSON path, at most `MOST_FOUND`."""
    level = [data]
    for step in steps:
        level = [value for each in level for value in _step(each, step)][:MOST_FOUND]
    return level


def _step(value: Any, step: str) -> Iterator[Any]:
    if step.startswith(".."):
        yield from _anywhere(value, step[2:])
    elif step in (".*", "[*]"):
        yield from value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    elif step.startswith("["):
        inner = step[1:-1]
        if inner.isdigit():
            if isinstance(value, list) and int(inner) < len(value):
                yield value[int(inner)]
        elif isinstance(value, dict) and inner[1:-1] in value:
            yield value[inner[1:-1]]
    elif isinstance(value, dict) and step[1:] in value:
        yield value[step[1:]]


def _anywhere(value: Any, name: str) -> Iterator[Any]:
    stack, looked = [value], 0
    while stack and looked < 20_000:
        each = stack.pop()
        looked += 1
        if isinstance(each, dict):
            if name in each:
                yield each[name]
            stack.extend(reversed(list(each.values())))
        elif isinstance(each, list):
            stack.extend(reversed(each))


# Texts as values of a type.


def typed(wanted: SchemaField, found: list[Any], document: Document) -> tuple[Any, str | None]:
    """Return (value, None), or (None, why it is not one)."""
    if not found:
        return None, "nothing was found"
    if wanted.type == "array":
        return [one_line(str(each)) if not isinstance(each, dict | list) else each for each in found], None
    first = found[0]
    if isinstance(first, dict | list):
        return None, "an object or a list was found, not a single value"
    try:
        value = _CONVERTERS[wanted.type](first)
        if wanted.format is not None:
            value = _formatted(wanted.format, value, document)
    except ValueError as error:
        return None, str(error)
    if wanted.enum is not None and value not in wanted.enum:
        return None, f"{str(value)[:60]!r} is not one of the values of `enum`"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if wanted.minimum is not None and value < wanted.minimum:
            return None, f"{value} is below the minimum {wanted.minimum:g}"
        if wanted.maximum is not None and value > wanted.maximum:
            return None, f"{value} is above the maximum {wanted.maximum:g}"
    return value, None


def _string(value: Any) -> str:
    text = one_line(str(value)) if not isinstance(value, bool) else str(value).lower()
    if not text:
        raise ValueError("nothing was found")
    return text


def _number(value: Any) -> float | int:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = _NUMBER.search(str(value)[:1_000])
    if found is None:
        raise ValueError(f"{str(value)[:60]!r} has no number in it")
    number = float(_plain(found[0]))
    if not math.isfinite(number):
        raise ValueError(f"{found[0][:60]!r} is too large for a number")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def number_matches(text: str) -> Iterator[tuple[str, float]]:
    """Yield each number that a text shows: as written, and its value. A hyphen in a word is no sign, and the digits of
    a word (`AB17`) are no number."""
    for found in _NUMBER.finditer(text):
        shown, before = found[0].strip(), text[max(0, found.start() - 1) : found.start()]
        if before.isalnum() and before.isascii():
            if shown[0].isdigit():
                continue
            shown = shown[1:]
        try:
            yield shown, float(_plain(shown))
        except ValueError:
            continue


def _plain(text: str) -> str:
    """Return `1.299,00` and `1,299.00` as `1299.00`: the last mark is the decimal one, unless three digits follow it
    and nothing else decides."""
    digits = re.sub(r"[' \u00a0\u202f]", "", text).replace("\u2212", "-").rstrip(".,")
    comma, dot = digits.rfind(","), digits.rfind(".")
    if comma >= 0 and dot >= 0:
        decimal = "," if comma > dot else "."
    else:
        mark = "," if comma >= 0 else "."
        last = max(comma, dot)
        grouped = last >= 0 and (digits.count(mark) > 1 or (mark == "," and len(digits) - last - 1 == 3))
        decimal = "" if grouped else mark
    for mark in ",.":
        if mark != decimal:
            digits = digits.replace(mark, "")
    return digits.replace(decimal, ".") if decimal else digits


def _integer(value: Any) -> int:
    number = _number(value)
    if isinstance(number, float) and not number.is_integer():
        raise ValueError(f"{number} is not a whole number")
    return int(number)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = one_line(str(value)).lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"{text[:60]!r} is neither true nor false")


def _formatted(form: str, text: str, document: Document) -> str:
    if form == "uri":
        url = document.absolute(text)
        if url is None or not url.startswith(("http://", "https://")):
            raise ValueError(f"{text[:60]!r} is not a web address")
        return url
    if form == "email":
        mail = text.removeprefix("mailto:").partition("?")[0]
        if not _EMAIL.fullmatch(mail):
            raise ValueError(f"{text[:60]!r} is not an e-mail address")
        return mail
    try:
        if form == "date":
            return date.fromisoformat(text[:10]).isoformat()
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a {form} in ISO form") from None


_CONVERTERS: Mapping[str, Any] = {"string": _string, "number": _number, "integer": _integer, "boolean": _boolean}
