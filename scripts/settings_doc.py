"""Writes docs/settings.md and .env.example from the declared settings, so that they cannot differ."""

from pathlib import Path

from forager import __version__
from forager.app.config import declared_settings
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
4. `.env` in the project folder, under either name
5. `forager.toml` in the project folder: the name without `FORAGER_`, in lower case, e.g. `serper_rate = 100`;
   `forager init` writes one
6. the default

An empty value counts as not set. Two values on one level that differ are an error, and so is a `FORAGER_…` name that
does not exist. Secrets are shown as `***` when printed.

The project folder is the nearest one, from the current folder upwards, with a `forager.toml` or a store in `.forager`;
without one, it is the current folder. So commands work in its sub-folders, as with Git. Relative paths in the two
files, and the default data folder, are below the project folder; those of flags and the environment below the current
one.

The first tables have the settings that an installation is likely to need. [Advanced settings](#advanced-settings) have
defaults that suit nearly every installation.
"""
_EXAMPLE_HEAD = """\
# Every setting of Forager with its default, made by `make settings`. Copy this file to .env and remove the # before
# what you change. A variable of the environment comes before this file; docs/settings.md has the whole order.
# The settings that an installation is likely to need come first, the advanced ones after them.
"""


def render_page() -> str:
    parts = [_PAGE_HEAD]
    for common, level in ((True, "##"), (False, "###")):
        if not common:
            parts.append("\n## Advanced settings\n")
        for group, members in _groups(common=common).items():
            heading = group if common else f"{group}: advanced"
            parts.append(f"\n{level} {heading}\n\n| name | default | limits | also read as | what it is |\n")
            parts.append("|---|---|---|---|---|\n")
            parts.extend(_row(each) for each in members)
    return "".join(parts)


def render_example() -> str:
    parts = [_EXAMPLE_HEAD]
    for common in (True, False):
        for group, members in _groups(common=common).items():
            parts.append(f"\n# --- {group}{'' if common else ': advanced'} ---\n")
            parts.extend(f"\n# {each.about}{_also(each)}\n#{each.name.variable}={_default(each)}\n" for each in members)
    return "".join(parts)


def main() -> None:
    for path, text in ((PAGE, render_page()), (EXAMPLE, render_example())):
        path.write_text(text, "utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


def _groups(*, common: bool) -> dict[str, list[Declared]]:
    """Return the common or the other settings by group, in order of declaration."""
    groups: dict[str, list[Declared]] = {}
    for each in declared_settings():
        if each.is_common is common:
            groups.setdefault(each.group, []).append(each)
    return groups


def _default(each: Declared) -> str:
    """Return the default without the version of this installation, which is another one at every commit."""
    return str(each.default or "").replace(f"/{__version__}", "/VERSION")


def _row(each: Declared) -> str:
    default = f"`{_default(each)}`" if each.default else ""
    seed = f"`{each.name.seed}`" if each.name.seed else ""
    return f"| `{each.name.variable}` | {default} | {each.limits} | {seed} | {each.about} |\n"


def _also(each: Declared) -> str:
    return f" Also read as {each.name.seed}." if each.name.seed else ""


if __name__ == "__main__":
    main()
