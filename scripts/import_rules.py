"""Our import rules, as contracts for import-linter (see `[tool.importlinter]` in pyproject.toml).

Both are lists of what is allowed, so that a new module or package is inside the rules before anyone thinks of it.

`rooms`: which package below `forager` may import which. Every package must be named; `*` may import everything. A rule
for a module inside a package replaces the package's rule for that module and what is below it; `*` in its name stands
for any name.

`pipeline_folders`: a module of a pipeline's folder is an edge if its name matches one of `edges`, or if it is in a
folder whose name does (`api.py`, `api/bodies.py`); every other module is pure. A pure module may import
`pure_may_import` and the pure modules of its own folder; an edge may also import `edges_may_import` and its own edges.
No folder imports another. Neither imports a package of `drivers`, and a pure module none of `frameworks` either.
`programs` open the whole application, as the command line does: they may import everything but another folder, and no
module of a folder imports them.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class Rooms(Contract):
    """`rules` are lines such as `forager.runners -> forager.core, forager.engine`."""

    root = fields.StringField()
    rules: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        wrong = list(self._wrong(graph))
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        _render(check.metadata["wrong"])

    def _wrong(self, graph: ImportGraph) -> Iterator[str]:
        allowed = {name.strip(): _split(names) for name, _, names in (rule.partition("->") for rule in self.rules)}
        for room in sorted(graph.find_children(str(self.root))):
            if room not in allowed:
                yield f"{room} has no rule: name it, and what it may import."
        for room, names in allowed.items():
            if "*" not in names and room in graph.modules:
                inner = [name for rule in allowed for name in graph.modules if _is_below(name, room, rule)]
                yield from _refused(graph, room, [room, *names], but=inner)


class PipelineFolders(Contract):
    """Checks every package below `parent`."""

    parent = fields.StringField()
    edges: Any = fields.ListField(subfield=fields.StringField())
    pure_may_import: Any = fields.ListField(subfield=fields.StringField())
    edges_may_import: Any = fields.ListField(subfield=fields.StringField())
    frameworks: Any = fields.ListField(subfield=fields.StringField())
    drivers: Any = fields.ListField(subfield=fields.StringField())
    programs: Any = fields.ListField(subfield=fields.StringField(), required=False, default=[])

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        wrong = [
            f"{importer} must not import {imported}."
            for folder in sorted(graph.find_children(str(self.parent)))
            for importer in sorted({folder, *graph.find_descendants(folder)})
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not self._allowed(folder, importer, imported)
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        _render(check.metadata["wrong"])

    def _allowed(self, folder: str, importer: str, imported: str) -> bool:
        if self._is(self.programs, folder, importer):
            return _inside(imported, [folder]) or not _inside(imported, [str(self.parent)])
        edge = self._is(self.edges, folder, importer)
        if _inside(imported, [folder]):
            if self._is(self.programs, folder, imported):
                return False
            return edge or not self._is(self.edges, folder, imported)
        if _inside(imported, [folder.partition(".")[0]]):
            return _inside(imported, [*self.pure_may_import, *(self.edges_may_import if edge else [])])
        return not _inside(imported, [*self.drivers, *([] if edge else self.frameworks)])

    def _is(self, patterns: Any, folder: str, module: str) -> bool:
        """Match the first name below the pipeline's folder: a file, or a folder for everything in it."""
        name = module.removeprefix(folder).lstrip(".").partition(".")[0]
        return any(fnmatchcase(name, pattern) for pattern in patterns)


def _refused(graph: ImportGraph, room: str, allowed: list[str], *, but: list[str]) -> Iterator[str]:
    """Direct imports are enough: what an allowed package imports is its own rule's business."""
    root = room.partition(".")[0]
    for importer in sorted({room, *graph.find_descendants(room)}):
        if _inside(importer, but):
            continue
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            if imported.startswith(f"{root}.") and not _inside(imported, allowed):
                yield f"{importer} must not import {imported}."


def _is_below(module: str, room: str, rule: str) -> bool:
    """Return whether a rule for modules inside a room is the one of this module."""
    return rule.startswith(f"{room}.") and fnmatchcase(module, rule)


def _inside(module: str, packages: list[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _render(wrong: list[str]) -> None:
    for line in wrong:
        output.print_error(line, bold=False)
    output.new_line()
