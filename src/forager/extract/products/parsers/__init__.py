"""One file per parser: each module here has a value `parser`. The base parser reads any shop.

A new site is one file; nothing else has to be edited.
"""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from forager.extract.products.parser import Parser


def shipped_parsers() -> Iterator[Parser]:
    """The parser of every module in this package, by name."""
    for module in iter_modules(__path__):
        yield import_module(f"{__name__}.{module.name}").parser
