"""The code of docs/extending.md, installed as another package would be: files, metadata, entry points."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
_FILE = re.compile(r"```python\n# (\S+\.py)\n(.*?)```", re.DOTALL)
_ENTRY = re.compile(r'\[project\.entry-points\."(.+)"\]\n(\w+) = "((\w+)\..+)"')


def files(package: str) -> dict[str, str]:
    """The files of one package of the page, by path."""
    found = _FILE.findall(PAGE.read_text("utf-8"))
    return {path: code for path, code in found if path.startswith(f"{package}/")}


def install(package: str, site: Path) -> Path:
    """Write a package and the metadata that its installation would leave. Returns the folder for the path."""
    for path, code in files(package).items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(code)
    (site / package / "__init__.py").write_text("")
    about = site / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    points = [f"[{group}]\n{name} = {target}" for group, name, target, owner in _entries() if owner == package]
    assert points, f"the page has no entry point of {package}"
    (about / "entry_points.txt").write_text("\n".join(points) + "\n")
    return site


def _entries() -> list[tuple[str, str, str, str]]:
    return _ENTRY.findall(PAGE.read_text("utf-8"))
