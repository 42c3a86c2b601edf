"""The revisions of the schema, read from the migrations' files without Alembic, because every start needs them.

One branch for the ledger itself and one for each pipeline, in `migrations/` of its own folder.
"""

import ast
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from forager.core.pipeline import Pipeline

SCRIPTS = Path(__file__).parents[1] / "migrations"
CORE = SCRIPTS / "versions"


def locations(pipelines: Iterable[Pipeline]) -> list[Path]:
    """Return the folders of migrations: the ledger's own first, then those of the pipelines."""
    return [CORE, *(m for p in pipelines if (m := _folder(p) / "migrations").is_dir())]


def home(location: Path) -> Path:
    """The folder that owns these migrations: its views lie there, too."""
    return location.parents[1] if location == CORE else location.parent


def heads(places: Sequence[Path]) -> frozenset[str]:
    """Return the newest revision of each branch: the contents of `alembic_version` in an up-to-date store."""
    known: set[str] = set()
    passed: set[str] = set()
    for file in _files(places):
        revision = _read(file)
        known.update(revision["revision"])
        passed.update(revision["down_revision"], revision["depends_on"])
    return frozenset(known - passed)


def known(places: Sequence[Path]) -> frozenset[str]:
    return frozenset(name for file in _files(places) for name in _read(file)["revision"])


def _files(places: Sequence[Path]) -> list[Path]:
    return [file for place in places for file in sorted(place.glob("*.py"))]


def _folder(pipeline: Pipeline) -> Path:
    """Return a pipeline's folder: that of its task classes, which, unlike `plan` and `params`, are never wrapped."""
    module = sys.modules.get(pipeline.steps[0].task.__module__) if pipeline.steps else None
    file = getattr(module, "__file__", None)
    return Path(file).parent if file else Path("/nonexistent")


def _read(file: Path) -> dict[str, tuple[str, ...]]:
    """`revision`, `down_revision` and `depends_on` of a migration: literals at the top of its file.

    Only that top is parsed. Every start of a process reads all migrations, and parsing their functions took a third of
    the time that a command spends in the ledger.
    """
    values: dict[str, tuple[str, ...]] = {"revision": (), "down_revision": (), "depends_on": ()}
    for node in ast.parse(file.read_text("utf-8").partition("\ndef ")[0]).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in values:
            value = ast.literal_eval(node.value)
            values[node.targets[0].id] = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    return values
