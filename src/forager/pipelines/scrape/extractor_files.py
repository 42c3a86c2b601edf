"""Extractors from plain files: `forager scrape URL --extractor my_site.py`, or the setting `extractor_files`.

A file of Python is loaded once, and what it has at its top level that is an `Extractor` can be used by its name.
"""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from forager.core.errors import FieldError, Rejected
from forager.pipelines.scrape.extractor import Extracted, Extractor, Page

SETTING = "extractor_files"


def load_extractors(files: Sequence[str]) -> tuple[Extractor, ...]:
    """Return the extractors of these files. Raises `Rejected`, naming the file, if one cannot be used."""
    return tuple(
        replace(each, parse=ParseOfFile(path, each.name)) for path in files for each in _extractors_of(path).values()
    )


@dataclass(frozen=True, slots=True)
class ParseOfFile:
    """The `parse` of an extractor by file and name. It can be pickled, since a big page is read by another process,
    which cannot import what this one has loaded from a path."""

    path: str
    name: str

    def __call__(self, page: Page, wanted: frozenset[str]) -> Extracted:
        return _extractors_of(self.path)[self.name].parse(page, wanted)


@cache
def _extractors_of(path: str) -> dict[str, Extractor]:
    file = Path(path).expanduser()
    if not os.path.isfile(file):  # noqa: PTH113 - False also for a name that no file can have
        raise _wrong(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"forager_extractor_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise _wrong(f"{path} is not a Python file; its name should end in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _wrong(f"{path} cannot be loaded: {type(error).__name__}: {error}") from error
    extractors = {value.name: value for value in vars(module).values() if isinstance(value, Extractor)}
    if not extractors:
        raise _wrong(f"{path} has no Extractor at its top level; docs/extending.md has an example")
    return extractors


def _wrong(message: str) -> Rejected:
    return Rejected(f"{SETTING}: {message}.", fields=[FieldError(SETTING, message)])
