"""Builds the documentation as a site with search: `make docs`, into build/site. A broken link or anchor is an error.

The pages are those of docs/ and of the root (README.md, CHANGELOG.md …). They are copied to build/pages with every file
of the repository that they link to, at the same paths, so that links work on the site as in the repository.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
BUILDER = ROOT / ".venv" / "docs-site" / "bin" / "python"
"""The environment that `scripts/setup docs` makes."""
ROOT_PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
QUIET = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")


def main() -> int:
    collect()
    # Not `--quiet`: warnings that are not shown are not counted either, and a broken link would pass.
    built = subprocess.run(
        [BUILDER, "-m", "mkdocs", "build", "--clean"],
        cwd=ROOT,
        env=QUIET,
        check=False,
        capture_output=True,
        text=True,
    )
    told = [line for line in built.stderr.splitlines() if not line.startswith("INFO")]
    if built.returncode == 0:
        print(f"docs: {sum(1 for _ in SITE.rglob('*.html'))} pages in {SITE.relative_to(ROOT)}/index.html")
    else:
        print("\n".join(told), file=sys.stderr)
    return built.returncode


def collect() -> None:
    """Copy the pages, and what they link to, to build/pages."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    for name in ROOT_PAGES:
        shutil.copy(ROOT / name, PAGES / name)
    for page in sorted(PAGES.rglob("*.md")):
        for target in outside(page):
            copy_linked(target)
        name_folder_pages(page)


def outside(page: Path) -> Iterator[Path]:
    """Yield the paths in the repository that a page links to, and that are no pages of the site yet."""
    for link in LINK.findall(page.read_text("utf-8")):
        target = (page.parent / link).resolve()
        if not target.exists() and target.is_relative_to(PAGES.resolve()):
            yield target.relative_to(PAGES.resolve())


def copy_linked(path: Path) -> None:
    """Copy a file that a page links to. A folder gets a page that lists its files."""
    source, target = ROOT / path, PAGES / path
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Markdown beside the site's pages is shown as a page of its own; its links would lead nowhere.
        shutil.copy(source, target)
    elif source.is_dir():
        files = sorted(each for each in source.iterdir() if each.is_file())
        target.mkdir(parents=True, exist_ok=True)
        for each in files:
            shutil.copy(each, target / each.name)
        listed = "\n".join(f"- [{each.name}]({each.name})" for each in files)
        (target / "index.md").write_text(f"# {path}\n\n{listed}\n", "utf-8")


def name_folder_pages(page: Path) -> None:
    """Let links to a folder lead to the page that lists its files."""

    def named(link: re.Match[str]) -> str:
        folder = (page.parent / link[1]).resolve()
        return f"]({link[1].rstrip('/')}/index.md)" if (folder / "index.md").is_file() else link[0]

    page.write_text(LINK.sub(named, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
