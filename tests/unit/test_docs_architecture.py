"""The page of the architecture names every package, and only files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "forager"
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_every_package_has_its_paragraph() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    paragraphs = set(re.findall(r"\*\*`(\w+)/`\*\*", PAGE))
    assert paragraphs == packages


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", PAGE)
    assert len(named) > 20
    missing = [path for path in named if not (SOURCE / path).exists() and not (ROOT / path).exists()]
    assert not missing
