"""Options of `forager scrape` about age, actions and pictures, and the fields of a request that they become."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from forager.core.clock import seconds_with_unit
from forager.core.errors import FieldError, Rejected

MaxAge = Annotated[
    str | None,
    typer.Option(
        "--max-age", metavar="TIME", help="Answer from a stored page that is at most this old: 10m, 6h, 7d (0: none)."
    ),
]
ActionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--action",
        metavar="TEXT",
        help="Do this on the page first (repeatable): click CSS, type CSS TEXT, select CSS VALUE, press KEY, scroll, "
        "wait_for CSS, wait 2. `click?` skips an element that is missing.",
    ),
]
Actions = Annotated[
    Path | None, typer.Option("--actions", dir_okay=False, help="JSON file with a list of actions, as the API has it.")
]
FullPage = Annotated[bool, typer.Option("--full-page", help="Screenshot of the whole page (with --as screenshot).")]
Element = Annotated[
    str | None, typer.Option("--element", metavar="CSS", help="Screenshot of one element (with --as screenshot).")
]
Match = Annotated[
    str | None, typer.Option("--match", metavar="TEXT", help="Only JSON from URLs that contain this (--as captured).")
]
Session = Annotated[
    str | None,
    typer.Option("--session", metavar="NAME", help="Keep cookies and storage under this name from visit to visit."),
]
_FORMS = {
    "click": ("selector",),
    "type": ("selector", "text"),
    "select": ("selector", "value"),
    "press": ("key", "selector"),
    "scroll": ("times",),
    "wait_for": ("selector",),
    "wait": ("seconds",),
    "evaluate": ("script",),
}
_REST = ("click", "wait_for", "evaluate")
"""Actions with one argument that may contain blanks."""


def depth_options(
    max_age: str | None,
    action: list[str] | None,
    actions: Path | None,
    *,
    full_page: bool,
    element: str | None,
    match: str | None,
    session: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a request for the options that were given. Raises `Rejected` with the option."""
    given: dict[str, Any] = {}
    if max_age is not None:
        given["max_age"] = seconds_of(max_age)
    if actions is not None and action:
        raise _wrong("action", "give --action or --actions, not both")
    if actions is not None:
        given["actions"] = _from_file(actions)
    elif action:
        given["actions"] = [_from_text(text) for text in action]
    picture = ({"full_page": True} if full_page else {}) | ({"selector": element} if element else {})
    if picture:
        given["screenshot"] = picture
    if match is not None:
        given["capture"] = {"match": match}
    if session is not None:
        given["session"] = session
    return given


def seconds_of(max_age: str) -> int:
    if max_age.strip() == "0":
        return 0
    try:
        return round(seconds_with_unit(max_age))
    except ValueError as error:
        raise _wrong("max_age", str(error)) from None


def _from_file(path: Path) -> Any:
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise _wrong("actions", f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise _wrong("actions", f"{path} is not valid JSON: {error}") from error


def _from_text(text: str) -> dict[str, Any]:
    """Read one action: its verb, then its values, quoted as in a shell if they contain blanks."""
    verb, _, rest = text.strip().partition(" ")
    do, optional = verb.removesuffix("?"), verb.endswith("?")
    names = _FORMS.get(do)
    if names is None:
        raise _wrong("action", f"unknown action {do!r}; choose from {', '.join(_FORMS)}")
    try:
        words = shlex.split(rest)
    except ValueError:
        raise _wrong("action", f"{text!r} has a quotation mark without its partner") from None
    if do in _REST and len(words) > 1:
        words = [rest.strip()]
    least = 0 if do == "scroll" else 1 if do == "press" else len(names)
    if not least <= len(words) <= len(names):
        form = " ".join([do, *(name.upper() for name in names)])
        raise _wrong("action", f"{text!r} should have the form `{form}`; quote a value that contains blanks")
    values: dict[str, Any] = dict(zip(names, words, strict=False))
    for name, kind in (("times", int), ("seconds", float)):
        if name in values:
            try:
                values[name] = kind(values[name].removesuffix("s"))
            except ValueError:
                raise _wrong("action", f"{text!r}: {values[name]!r} is not a number") from None
    return {"do": do, **values, **({"optional": True} if optional else {})}


def _wrong(option: str, problem: str) -> Rejected:
    return Rejected(f"--{option.replace('_', '-')}: {problem}.", fields=[FieldError(option, problem)])
