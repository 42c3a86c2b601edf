"""Loading settings: the only reader of the environment, `.env` and `forager.toml`.

Works on any class that `merged` has made. An error never shows the value of a secret.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from forager.core.errors import FieldError, Rejected
from forager.core.invalid import plain_message
from forager.settings.sources import Given, Name, assembled, gather
from forager.settings.tree import Settings


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting as the documentation needs it."""

    name: Name
    group: str
    about: str
    default: str | None
    """The default as text; None if there is none."""
    limits: str


def declared(tree: type[Settings]) -> tuple[Declared, ...]:
    """Return every setting of this class in order of declaration."""
    return tuple(_declared(field, info) for field, info in tree.model_fields.items())


def load(
    tree: type[Settings],
    overrides: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Load settings. Precedence: flag > FORAGER_X > the seed's own name > .env > forager.toml > default. Relative paths
    are resolved against `cwd`.

    `overrides` holds command line flags by field; None there means that the flag was not given. All mistakes are
    reported at once, as `Rejected` with an entry for each name.
    """
    folder = Path.cwd() if cwd is None else cwd.absolute()
    known = declared(tree)
    given, wrong = gather([each.name for each in known], overrides or {}, os.environ if env is None else env, folder)
    try:
        loaded = tree(**assembled(given))
    except ValidationError as invalid:
        wrong += [_wrong_value(error, given, known) for error in invalid.errors(include_url=False)]
    if wrong:
        raise Rejected(_summary(wrong), fields=wrong) from None
    paths = {field: folder / value for field, value in loaded if isinstance(value, Path)}
    return loaded.model_copy(update=paths)


def _declared(field: str, info: FieldInfo) -> Declared:
    extra = info.json_schema_extra
    assert isinstance(extra, dict)  # noqa: S101 — `setting` wrote it
    seed = str(extra["seed"]) if extra["seed"] else None
    name = Name(field, seed=seed, hidden=bool(extra["hidden"]) or "Secret" in str(info.annotation))
    return Declared(name, str(extra["group"]), info.description or "", _as_text(info.default), str(extra["limits"]))


def _as_text(default: object) -> str | None:
    if default is None or default in ((), {}):
        return None
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _wrong_value(error: ErrorDetails, given: Mapping[str, Given], known: Sequence[Declared]) -> FieldError:
    field = str(error["loc"][0])
    source = given.get(field) or given[".".join(str(part) for part in error["loc"][:2])]
    reason = plain_message(error)
    text = str(source.value)
    # The text before an @ in something like a URL may be a password.
    shown = "the value" if source.name.hidden or "@" in text else repr(text[:60])
    default = next(each.default for each in known if each.name.field == field)
    remedy = "leave it unset" if default is None else f"leave it unset for the default, {default}"
    return FieldError(source.written, f"{shown} in {source.place} cannot be used: {reason}. Correct it, or {remedy}.")


def _summary(wrong: Sequence[FieldError]) -> str:
    lines = [f"{each.field}: {each.message}" for each in wrong]
    return lines[0] if len(lines) == 1 else "\n- ".join([f"{len(lines)} settings are wrong:", *lines])
