"""`forager init`: a commented `forager.toml` in the current folder. It asks nothing and sets nothing by itself."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from forager.core.errors import Conflict, Rejected
from forager.sdk.cli.invocation import Json

if TYPE_CHECKING:
    from forager.settings import Declared

FILE = "forager.toml"


HEAD = """\
# Settings of Forager for this folder and those below it. A flag, the environment and .env come before this file.
# Every line is a comment with the default: remove the # of what you change. docs/settings.md lists all settings.
#
# Found on this machine:
"""


def init(as_json: Json = False) -> None:
    """Write a commented forager.toml to the current folder: every common setting with its default.

    Commands in this folder and below it then use it, and the data folder next to it. The command is not interactive,
    and never writes a secret.

    Example: forager init
    """
    from forager.app.config import declared_settings
    from forager.sdk.cli import render

    path = Path.cwd() / FILE
    text = commented([each for each in declared_settings() if each.is_common])
    try:
        with path.open("x", encoding="utf-8") as file:  # never over a file that is there
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{path} exists already. Edit it, or remove it and run this again.") from None
    except OSError as error:
        raise Rejected(f"{path} cannot be written ({error.strerror}). Use a folder of yours.") from error
    if as_json:
        render.show_json({"wrote": str(path), "settings": text.count("\n#") - text.count("\n# ")})
        return
    render.out().print(f"Wrote {render.near(path)}. Every line is a comment: remove the # of what you change.")
    render.show_next([("see whether all is well", f"{render.program()} doctor"), ("run it", f"{render.program()} up")])


def commented(settings: "list[Declared]") -> str:
    """Return the file: what was found on this machine, then the settings by group, all as comments."""
    parts = [HEAD, *(f"#   {line}\n" for line in _found(settings))]
    groups: dict[str, list[Declared]] = {}
    for each in settings:  # features may add to the group of another
        groups.setdefault(each.group, []).append(each)
    for group, members in groups.items():
        parts.append(f"\n# --- {group} ---\n")
        parts += map(_setting, members)
    return "".join(parts)


def _setting(each: "Declared") -> str:
    """Return the lines of one setting."""
    secret = f" Better in .env or the environment: {each.name.variable}." if each.name.hidden else ""
    return f"\n# {each.about}{secret}\n#{each.name.field} = {_value(each)}\n"


def _found(settings: "list[Declared]") -> list[str]:
    """Describe what matters here: Python, a browser, extras, and the settings of the environment by name."""
    from forager.app.checks import EXTRAS
    from forager.fetch.browser.chromium import find_chromium

    try:
        browser = str(find_chromium())
    except Exception:  # noqa: BLE001 - any failure means that there is none to use
        browser = "none (pages are read by plain HTTP; `forager doctor` shows how to get one)"
    modules = {"browser": "playwright", **{name: module for name, (module, _) in EXTRAS.items()}}
    installed = [name for name, module in modules.items() if _is_installed(module)]
    given = [name for each in settings for name in each.name.variables if os.environ.get(name)]
    return [
        f"Python {sys.version_info.major}.{sys.version_info.minor}",
        f"browser: {browser}",
        f"extras: {', '.join(installed) or 'none'}",
        f"set in the environment: {', '.join(given) or 'nothing'}",
    ]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _value(each: "Declared") -> str:
    """Return the default as TOML."""
    text = each.default or ""
    number = text.replace(".", "", 1).replace("-", "", 1)
    return text if number.isdigit() or text in ("true", "false") else f'"{text}"'
