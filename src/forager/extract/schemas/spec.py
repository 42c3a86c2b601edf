"""A schema: named fields with a type, and where each is found on a page. Pure.

A pattern of a user is compiled by RE2, whose time is linear in the text: no pattern can stop anything.
"""

import re
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator
from selectolax.lexbor import LexborHTMLParser

MOST_FIELDS = 100
MOST_PAGES = 50
LONGEST_PATH = 500
LONGEST_DESCRIPTION = 500
MOST_DESCRIBED = 30
MOST_DESCRIBED_BYTES = 4_000
"""Bytes of the names and descriptions of all described fields together: they are part of the price of a page."""
FieldName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern="^[a-z][a-z0-9_]*$")]
_STEP = re.compile(r"\.\.?(?:[A-Za-z_@$][\w@:$-]*|\*)|\[(?:\d{1,6}|\*|'[^'\]]{1,100}'|\"[^\"\]]{1,100}\")\]")


def _css(text: str) -> str:
    try:
        LexborHTMLParser("<p></p>").css(text)
    except Exception as error:  # noqa: BLE001 - whatever the parser raises, the selector is wrong
        raise ValueError(f"is not a CSS selector: {error}") from None
    return text


def _json_path(text: str) -> str:
    steps_of(text)
    return text


@lru_cache(maxsize=1_024)
def steps_of(path: str) -> tuple[str, ...]:
    """Return the steps of a JSON path such as `$.offers[0].price`. Raises `ValueError` for an invalid path."""
    rest = path.removeprefix("$")
    if rest and not rest.startswith((".", "[")):
        rest = f".{rest}"
    steps, at = [], 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise ValueError(f"is not a JSON path: {rest[at : at + 20]!r} should be .name, [0], [*] or ..name")
        steps.append(found[0])
        at = found.end()
    if not steps:
        raise ValueError("should name something, as $.offers.price")
    return tuple(steps)


def _pattern(text: str) -> str:
    compiled(text)
    return text


@lru_cache(maxsize=1_024)
def compiled(pattern: str) -> Any:
    """Compile a user's pattern with RE2. Raises `ValueError`, also if RE2 is not installed."""
    try:
        import re2
    except ImportError:
        raise ValueError("needs RE2, which is not installed: pip install 'forager-data[fields]'") from None
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"is not a regular expression of RE2: {error}") from None


def _xpath(text: str) -> str:
    try:
        from lxml import etree
    except ImportError:
        raise ValueError("needs lxml, which is not installed: pip install 'forager-data[fields]'") from None
    try:
        etree.XPath(text)
    except etree.XPathError as error:
        raise ValueError(f"is not an XPath: {error}") from None
    return text


def _words(text: str) -> str:
    if not text.isprintable():
        raise ValueError("should be one line of printable text")
    return text


Path = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_PATH)]
Css = Annotated[Path, AfterValidator(_css)]
JsonPath = Annotated[Path, AfterValidator(_json_path)]
XPath = Annotated[Path, AfterValidator(_xpath)]
Pattern = Annotated[Path, AfterValidator(_pattern)]
Described = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_DESCRIPTION), AfterValidator(_words)
]
FieldType = Literal["string", "number", "integer", "boolean", "array"]
FieldFormat = Literal["date", "date-time", "uri", "email"]
WAYS = ("css", "xpath", "json", "meta", "regex", "describe")


class SchemaField(BaseModel):
    """One field: its type, and where it is found. The first way that finds a valid value counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    type: FieldType = Field(default="string", description="Type of the value, as JSON Schema names it.")
    format: FieldFormat | None = Field(default=None, description="Format of a string; another value is left out.")
    description: str | None = Field(default=None, max_length=1_000)
    css: Css | None = Field(default=None, description="CSS selector; the text of the first element.")
    attr: Path | None = Field(default=None, description="With css: this attribute instead of the text.")
    xpath: XPath | None = Field(default=None, description="XPath 1.0 (needs the extra `fields`).")
    json_path: JsonPath | None = Field(
        default=None, alias="json", description="Path into JSON-LD or the JSON that scripts of the page hold."
    )
    meta: Path | None = Field(default=None, description="Name or property of a meta tag.")
    regex: Pattern | None = Field(
        default=None,
        description="Pattern (RE2): its first group, or the whole match. Alone over the page's text, else over values.",
    )
    describe: Described | None = Field(
        default=None,
        description="Ask a language model for it in these words, if no other way finds it. Its answer must be a quote "
        "of the page. Costs tokens, and needs the setting llm_url.",
        examples=["the price after all discounts"],
    )
    enum: tuple[str | int | float | bool, ...] | None = Field(default=None, min_length=1, max_length=1_000)
    minimum: float | None = None
    maximum: float | None = None
    confidence: float | None = Field(default=None, ge=0, le=1, description="Set by `learn`: how sure its path is.")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.attr is not None and self.css is None:
            raise ValueError("`attr` goes with `css`")
        if self.format is not None and self.type != "string":
            raise ValueError("`format` is for the type string")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError("`minimum` is above `maximum`")
        if self.describe is not None and self.type == "boolean":
            raise ValueError("`describe` finds a quote of the page, which is not true or false; use string with `enum`")
        if self.describe is not None and self.format == "uri":
            raise ValueError("`describe` finds text that the page shows, not addresses; use `css` with `attr`")
        return self

    @property
    def has_path(self) -> bool:
        """Return whether the page's source alone can show it: it has a selector, a path or a pattern."""
        return any((self.css, self.xpath, self.json_path, self.meta, self.regex))


class SchemaItems(BaseModel):
    """A list of things on one page: how each is found, and its fields, read inside of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    css: Css = Field(description="CSS selector of each item.")
    fields: dict[FieldName, SchemaField] = Field(min_length=1, max_length=MOST_FIELDS)
    most: int = Field(default=1_000, ge=1, le=10_000, description="Items of one page at most.")

    @model_validator(mode="after")
    def _by_selectors(self) -> Self:
        for name, field in self.fields.items():
            if field.xpath or field.json_path or field.meta:
                raise ValueError(f"{name}: a field of items is found by css, attr and regex")
            if field.describe:
                raise ValueError(f"{name}: a field of items cannot have `describe`; give it a selector")
        return self


class PageSchema(BaseModel):
    """Fields of a page, a list of items, and the link to the next page of the list."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "fields": {
                        "title": {"css": "h1"},
                        "price": {"type": "number", "json": "$.offers.price", "css": ".price"},
                        "sku": {"regex": "SKU: (\\w+)"},
                    }
                }
            ]
        },
    )

    base: str | None = Field(
        default=None, max_length=100, description="A built-in kind whose fields are added, such as job_posting."
    )
    fields: dict[FieldName, SchemaField] = Field(default_factory=dict, max_length=MOST_FIELDS)
    items: SchemaItems | None = None
    next: Css | None = Field(default=None, description="CSS selector of the link to the next page; with items.")
    pages: int = Field(default=1, ge=1, le=MOST_PAGES, description="Pages of a list to read, with next.")

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.fields and self.items is None and self.base is None:
            raise ValueError("give `fields`, `items` or `base`")
        if self.next is not None and self.items is None:
            raise ValueError("`next` goes with `items`")
        pathless = [name for name, field in self.fields.items() if not field.has_path and not field.describe]
        if pathless and self.base is None:
            raise ValueError(f"{pathless[0]}: give one of {', '.join(WAYS)}, or a `base` that has the field")
        if "items" in self.fields:
            raise ValueError("a field cannot be called `items`")
        if self.described and self.pages > 1:
            raise ValueError("a schema with `describe` reads one page; leave out `pages`")
        if len(self.described) > MOST_DESCRIBED:
            raise ValueError(f"{len(self.described)} fields have `describe`; at most {MOST_DESCRIBED} may have it")
        size = sum(len(f"{name}{each.describe}".encode()) for name, each in self.described.items())
        if size > MOST_DESCRIBED_BYTES:
            raise ValueError(f"the descriptions have {size:,} bytes; at most {MOST_DESCRIBED_BYTES:,} are allowed")
        return self

    @property
    def described(self) -> dict[str, SchemaField]:
        """The fields for a language model, used if nothing else finds them."""
        return {name: field for name, field in self.fields.items() if field.describe is not None}

    def needs_process(self) -> bool:
        """Return whether it has an XPath, whose time has no bound: such pages are read in a process with a limit."""
        return any(field.xpath for field in self.fields.values())

    def as_json(self) -> dict[str, Any]:
        """Return the schema as it was given, without what it left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
