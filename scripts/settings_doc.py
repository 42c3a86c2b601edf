"""Writes docs/settings.md and .env.example from the declared settings, so that they cannot differ."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from forager.config import declared_settings
from forager.settings import Declared

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
EXAMPLE = ROOT / ".env.example"

_PAGE_HEAD = """\
# Settings

Made by `make settings` from `src/forager/settings/tree.py` and the `settings.py` of each pipeline; a test fails when
this page is out of date.

A value comes from the first of these that has one:

1. a flag of the command line
2. `FORAGER_…` in the environment
3. the other name in the environment, where the table has one
4. `.env` in the current folder, under either name
5. `forager.toml` in the current folder: the name without `FORAGER_`, in lower case, e.g. `serper_rate = 100`
6. the default

An empty value counts as not set. Two values on one level that differ are an error, and so is a `FORAGER_…` name that
does not exist. Relative paths are those of the current folder. Secrets are shown as `***` when printed.
"""
_EXAMPLE_HEAD = """\
# Every setting of Forager with its default, made by `make settings`. Copy this file to .env and remove the # before
# what you change. A variable of the environment comes before this file; docs/settings.md has the whole order.
"""


def render_page() -> str:
    parts = [_PAGE_HEAD]
    for group, members in _groups():
        parts.append(
            f"\n## {group}\n\n| name | default | limits | also read as | what it is |\n|---|---|---|---|---|\n"
        )
        parts.extend(_row(each) for each in members)
    return "".join(parts)


def render_example() -> str:
    parts = [_EXAMPLE_HEAD]
    for group, members in _groups():
        parts.append(f"\n# --- {group} ---\n")
        parts.extend(f"\n# {each.about}{_also(each)}\n#{each.name.variable}={each.default or ''}\n" for each in members)
    return "".join(parts)


def main() -> None:
    for path, text in ((PAGE, render_page()), (EXAMPLE, render_example())):
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


def _groups() -> Iterator[tuple[str, Iterator[Declared]]]:
    return groupby(declared_settings(), key=lambda each: each.group)


def _row(each: Declared) -> str:
    default = f"`{each.default}`" if each.default else ""
    seed = f"`{each.name.seed}`" if each.name.seed else ""
    return f"| `{each.name.variable}` | {default} | {each.limits} | {seed} | {each.about} |\n"


def _also(each: Declared) -> str:
    return f" Also read as {each.name.seed}." if each.name.seed else ""


if __name__ == "__main__":
    main()
