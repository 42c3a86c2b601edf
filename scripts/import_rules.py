"""The import rule of pipeline folders, as a contract for import-linter (`type = "pipeline_folders"` in pyproject.toml).

A module of a folder is an edge if its name matches one of `edges`; every other module is pure, a new one too, so that
none escapes the rule by not being listed. A pure module may import `pure_may_import` and the pure modules of its own
folder; an edge may also import `edges_may_import` and its own edges. No folder imports another. Neither imports a
package of `drivers`, and a pure module none of `frameworks` either.
"""

from fnmatch import fnmatchcase
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PipelineFolders(Contract):
    """Checks every package below `parent`."""

    parent = fields.StringField()
    edges: Any = fields.ListField(subfield=fields.StringField())
    pure_may_import: Any = fields.ListField(subfield=fields.StringField())
    edges_may_import: Any = fields.ListField(subfield=fields.StringField())
    frameworks: Any = fields.ListField(subfield=fields.StringField())
    drivers: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        wrong = [
            (importer, imported)
            for folder in sorted(graph.find_children(str(self.parent)))
            for importer in sorted({folder, *graph.find_descendants(folder)})
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not self._allowed(folder, importer, imported)
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["wrong"]:
            output.print_error(f"{importer} must not import {imported}.", bold=False)
        output.new_line()

    def _allowed(self, folder: str, importer: str, imported: str) -> bool:
        edge = self._is_edge(folder, importer)
        if _inside(imported, [folder]):
            return edge or not self._is_edge(folder, imported)
        if _inside(imported, [folder.partition(".")[0]]):
            allowed = [*self.pure_may_import, *(self.edges_may_import if edge else [])]
            return _inside(imported, allowed)
        banned = [*self.drivers, *([] if edge else self.frameworks)]
        return not _inside(imported, banned)

    def _is_edge(self, folder: str, module: str) -> bool:
        name = module.removeprefix(folder).lstrip(".").partition(".")[0]
        return any(fnmatchcase(name, pattern) for pattern in self.edges)


def _inside(module: str, packages: list[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
