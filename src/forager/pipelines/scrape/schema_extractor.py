"""An extractor made from a schema: the fields of a user, read by selectors, patterns and a base kind. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from pydantic import BaseModel, create_model

from forager.extract.html.document import Document
from forager.extract.schemas.read import read_schema
from forager.extract.schemas.spec import PageSchema
from forager.pipelines.scrape.extractor import Extracted, Extractor, FieldFound, PageInput, Parse

ITEMS, NEXT = "items", "next_page"


@dataclass(frozen=True, slots=True)
class SchemaParse:
    """The `parse` of a schema. It can be pickled, since pages are read by another process."""

    schema: str
    """As JSON."""
    base: Parse | None = None

    def __call__(self, page: PageInput, wanted: frozenset[str]) -> Extracted:
        schema = schema_of(self.schema)
        read = read_schema(schema, Document(page.html, page.url))
        found = {
            name: FieldFound(each.value, each.source, each.confidence)
            for name, each in read.values.items()
            if name in wanted
        }
        if read.items and schema.items is not None:
            found[ITEMS] = FieldFound(read.items, f"css:{schema.items.css}", 0.85)
        more = (read.next,) if read.next else ()
        if self.base is None:
            return Extracted(found, more=more)
        below = self.base(page, wanted - found.keys())
        return Extracted({**below.fields, **found}, below.wall, "item" if found else below.kind, more)


@lru_cache(maxsize=256)
def schema_of(text: str) -> PageSchema:
    return PageSchema.model_validate(orjson.loads(text))


def extractor_of(schema: Mapping[str, Any], extractors: Mapping[str, Extractor], page: Extractor) -> Extractor:
    """Return the extractor of a schema: its own fields and those of its base kind."""
    text = orjson.dumps(schema, option=orjson.OPT_SORT_KEYS).decode()
    parsed = schema_of(text)
    base = extractors.get(parsed.base) if parsed.base else None
    names = dict.fromkeys([*parsed.fields, *(base.output.model_fields if base else ())])
    if parsed.items is not None:
        names[ITEMS] = None
    output = _output(tuple(names))
    script, credentials = (base or page).script, base.credentials if base else None
    return Extractor(page.name, output, script, SchemaParse(text, base.parse if base else None), credentials)


@lru_cache(maxsize=256)
def _output(names: tuple[str, ...]) -> type[BaseModel]:
    fields: dict[str, Any] = dict.fromkeys(names, (Any, None))
    return create_model("SchemaFields", **fields)
