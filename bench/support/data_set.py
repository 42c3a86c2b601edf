"""The shared data set, and how a page of it is read: by the extractors that users run."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forager.extract.text.normalise import normalise
from forager.pipelines.scrape.extractor import Extracted, PageInput
from forager.pipelines.scrape.extractors import EXTRACTORS

DATA = Path(os.environ.get("FORAGER_DATA") or Path(__file__).parents[3] / "shared" / "data")
UNSAID = "https://page.example/page"
"""The address of a page whose own the set does not have. It gives nothing away: no country, no company."""
AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reading:
    """The values that an extractor read on a page."""

    result: Mapping[str, Any]
    """Every field; one that was not found is None."""
    extracted: Extracted
    milliseconds: float

    def confidence(self, name: str) -> float | None:
        found = self.extracted.fields.get(name)
        return found.confidence if found else None


def pages(kind: str) -> Iterator[tuple[str, bytes, Any]]:
    """Name, body and expected values of every page of a kind."""
    for told in sorted((DATA / "pages" / kind).glob("*.expected.json")):
        name = told.name.removesuffix(".expected.json")
        source = next(
            path for path in (told.with_name(f"{name}.html"), told.with_name(f"{name}.json")) if path.exists()
        )
        yield name, source.read_bytes(), json.loads(told.read_text())["expected"]


def read(kind: str, body: bytes, url: str | None) -> Reading:
    """Extract all fields of a page and normalise them, as for a user."""
    extractor = next(one for one in EXTRACTORS if one.name == kind)
    began = time.process_time()
    extracted = extractor.parse(PageInput(url or UNSAID, body, 200, AT), extractor.fields)
    result = normalise(extractor.output, {name: one.value for name, one in extracted.fields.items()}).result
    return Reading(result.model_dump(), extracted, (time.process_time() - began) * 1000)
