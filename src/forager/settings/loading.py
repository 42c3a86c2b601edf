"""Loading settings: the only reader of the environment, `.env` and `forager.toml`.

Works on any class that `merged` has made. An error never shows the value of a secret.
"""

import difflib
import io
import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from forager.core.errors import FieldError, Rejected
from forager.core.invalid import plain_message
from forager.settings.tree import Settings

# The sources of settings (flags, environment, `.env`, `forager.toml`) and their precedence.
#
# This module handles names and texts, not their meaning. It reports every mistake: an unknown FORAGER_… name, a line
# that cannot be parsed, and two spellings with different values in one source.


PREFIX = "FORAGER_"
# Names with our prefix that are not settings: those of the tests, and those that a supervisor passes to its child.
NOT_SETTINGS = re.compile(r"FORAGER_TEST_\w+|FORAGER_DATA|FORAGER_BEAT_FD")
ALL = "docs/settings.md lists every name"


@dataclass(frozen=True, slots=True)
class Name:
    """The names of a setting. An original name that ends in `*` matches every name with that prefix."""

    field: str
    seed: str | None = None
    hidden: bool = False

    @property
    def variable(self) -> str:
        return f"{PREFIX}{self.field.upper()}{'_*' if self.is_family else ''}"

    @property
    def is_family(self) -> bool:
        return bool(self.seed and self.seed.endswith("*"))

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable, self.seed) if self.seed else (self.variable,)


@dataclass(frozen=True, slots=True)
class GivenValue:
    """A value with the name that the user wrote, and its source."""

    name: Name
    slot: str
    """The field; `field.MEMBER` for a member of a family."""
    value: object
    written: str
    found_in: str


def gather(
    names: Sequence[Name], overrides: Mapping[str, object], env: Mapping[str, str], folder: Path
) -> tuple[dict[str, GivenValue], list[FieldError]]:
    """Return the effective value of each slot, and all mistakes in names and files."""
    wrong: list[FieldError] = []
    texts = [(key, value) for key, value in env.items() if value.strip()]
    from_env = list(_from_variables(names, texts, "the environment", wrong))
    levels = (
        _from_flags(names, overrides, wrong),
        [each for each in from_env if each.written.startswith(PREFIX)],
        [each for each in from_env if not each.written.startswith(PREFIX)],
        _from_variables(names, _read_dotenv(folder / ".env", wrong), ".env", wrong),
        _from_toml(names, _read_toml(folder / "forager.toml", wrong), wrong),
    )
    counts: dict[str, GivenValue] = {}
    for level in levels:
        for slot, given in _one_each(level, wrong).items():
            counts.setdefault(slot, given)
    return counts, wrong


def assembled(given: Mapping[str, GivenValue]) -> dict[str, Any]:
    """Return the values by field, with the members of a family in one mapping."""
    values: dict[str, Any] = {}
    for slot, each in given.items():
        if each.name.is_family and slot != each.name.field:
            values.setdefault(each.name.field, {})[slot.split(".", 1)[1]] = each.value
        else:
            values[slot] = each.value
    return values


def _from_flags(names: Sequence[Name], overrides: Mapping[str, object], wrong: list[FieldError]) -> list[GivenValue]:
    fields = {name.field: name for name in names}
    values = []
    for field, value in overrides.items():
        flag = f"--{field.replace('_', '-')}"
        if field not in fields:
            wrong.append(FieldError(flag, f"is not a setting{_near(field, fields)}. {ALL}."))
        elif value is not None:
            values.append(GivenValue(fields[field], field, value, flag, "the command line"))
    return values


def _from_variables(
    names: Sequence[Name], texts: Iterable[tuple[str, str]], found_in: str, wrong: list[FieldError]
) -> Iterator[GivenValue]:
    """Read both spellings of every setting. A name in the wrong case is reported as a mistake."""
    known = {variable: name for name in names for variable in name.variables}
    families = {variable[:-1]: name for variable, name in known.items() if name.is_family}
    for key, value in texts:
        if key in known:
            yield GivenValue(known[key], known[key].field, value.strip(), key, found_in)
        elif begun := next((start for start in families if key.startswith(start) and key != start), None):
            name = families[begun]
            yield GivenValue(name, f"{name.field}.{key.removeprefix(begun)}", value.strip(), key, found_in)
        elif key.upper().startswith(PREFIX) and not NOT_SETTINGS.fullmatch(key):
            near = _near(key.upper(), known)
            wrong.append(FieldError(key, f"in {found_in} is not a setting{near}. Correct or remove it; {ALL}."))


def _from_toml(names: Sequence[Name], table: Mapping[str, Any], wrong: list[FieldError]) -> Iterator[GivenValue]:
    """Read TOML. Values are converted to text, so that they are validated exactly as in the other sources."""
    fields = {name.field: name for name in names}
    found_in = "forager.toml"
    for key, value in table.items():
        name = fields.get(key)
        if name is None:
            wrong.append(
                FieldError(key, f"in {found_in} is not a setting{_near(key, fields)}. Correct or remove it; {ALL}.")
            )
        elif name.is_family and isinstance(value, dict):
            yield from (
                GivenValue(name, f"{key}.{member}", str(item), f"{key}.{member}", found_in)
                for member, item in value.items()
            )
        elif isinstance(value, list):
            yield GivenValue(name, key, [str(item) for item in value], key, found_in)
        elif str(value).strip():
            yield GivenValue(name, key, str(value).strip(), key, found_in)


def _one_each(level: Iterable[GivenValue], wrong: list[FieldError]) -> dict[str, GivenValue]:
    """Return one value per slot. Two spellings in one source may repeat a value, but not differ."""
    slots: dict[str, list[GivenValue]] = defaultdict(list)
    for each in level:
        slots[each.slot].append(each)
    wrong += [
        _differing(spellings)
        for spellings in slots.values()
        if any(each.value != spellings[0].value for each in spellings)
    ]
    return {slot: spellings[0] for slot, spellings in slots.items()}


def _differing(spellings: Sequence[GivenValue]) -> FieldError:
    written = list(dict.fromkeys(each.written for each in spellings))
    found_in = spellings[0].found_in
    if len(written) == 1:
        return FieldError(written[0], f"is set more than once in {found_in}, to different values. Keep one.")
    both = " and ".join(written)
    return FieldError(
        written[0], f"differs from its other spelling: {both} in {found_in} name the same setting. Keep one."
    )


def _read_dotenv(path: Path, wrong: list[FieldError]) -> list[tuple[str, str]]:
    """Read every binding, including repeated ones. `$` is literal, and an empty value counts as not set."""
    values = []
    for binding in parse_stream(io.StringIO(_read(path, wrong))):
        line = f".env line {binding.original.line}"
        if binding.error:
            wrong.append(
                FieldError(line, "cannot be read. Write NAME=value, and quote a value that holds spaces or #.")
            )
        elif binding.key and binding.value is None and binding.key.startswith(PREFIX):
            wrong.append(FieldError(binding.key, f"has no value ({line}). Write {binding.key}=value or remove it."))
        elif binding.key and binding.value and binding.value.strip():
            values.append((binding.key, binding.value))
    return values


def _read_toml(path: Path, wrong: list[FieldError]) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path, wrong))
    except tomllib.TOMLDecodeError as error:
        wrong.append(FieldError(path.name, f"is not valid TOML: {error}. Correct it, or remove the file."))
        return {}


def _read(path: Path, wrong: list[FieldError]) -> str:
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        wrong.append(FieldError(path.name, f"is not UTF-8 text. Save {path} as UTF-8."))
    except OSError as error:
        wrong.append(FieldError(path.name, f"cannot be read ({error.strerror}). Make {path} a file that you may read."))
    return ""


def _near(name: str, known: Iterable[str]) -> str:
    """Return a hint with the most similar name, if there is one."""
    known = list(known)
    bare = name.removeprefix(PREFIX)
    close = [bare] if bare in known else difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f" (did you mean {close[0]}?)" if close else ""


@dataclass(frozen=True, slots=True)
class Declared:
    """A setting as the documentation needs it."""

    name: Name
    group: str
    about: str
    default: str | None
    """The default as text, or None."""
    limits: str
    is_common: bool
    """True if an operator is likely to set it. The other settings are listed as advanced."""


def declared(tree: type[Settings]) -> tuple[Declared, ...]:
    """Return every setting of this class in order of declaration."""
    return tuple(_declared(field, info) for field, info in tree.model_fields.items())


def load(
    tree: type[Settings],
    overrides: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Settings:
    """Load settings. Precedence: flag > FORAGER_X > the seed's own name > .env > forager.toml > default.

    `.env` and `forager.toml` are those of the project: the nearest folder, from `cwd` upwards, with a `forager.toml` or
    a data folder. Relative paths in these files, and the default data folder, are below it; others are below `cwd`.

    `overrides` holds command line flags by field; None there means that the flag was not given. All mistakes are
    reported at once, as `Rejected` with an entry for each name.
    """
    here = Path.cwd() if cwd is None else cwd.absolute()
    folder = project_folder(here)
    known = declared(tree)
    given, wrong = gather([each.name for each in known], overrides or {}, os.environ if env is None else env, folder)
    try:
        loaded = tree(**assembled(given))
    except ValidationError as invalid:
        wrong += [_wrong_value(error, given, known) for error in invalid.errors(include_url=False)]
    if wrong:
        raise Rejected(_summary(wrong), fields=wrong) from None
    from_here = {field for field, each in given.items() if each.found_in not in PROJECT_FILES}
    paths = {
        field: (here if field in from_here else folder) / value for field, value in loaded if isinstance(value, Path)
    }
    return loaded.model_copy(update=paths)


PROJECT_FILES = (".env", "forager.toml")
STORE = Path(".forager") / "ledger.db"


def project_folder(here: Path) -> Path:
    """Return the nearest folder, from `here` upwards, that has a `forager.toml` or an embedded store in `.forager`;
    `here` itself if there is none. Git finds its repository in the same way."""
    for folder in (here, *here.parents):
        try:
            if (folder / "forager.toml").is_file() or (folder / STORE).is_file():
                return folder
        except OSError:  # a folder above that may not be looked into
            break
    return here


def _declared(field: str, info: FieldInfo) -> Declared:
    extra = info.json_schema_extra
    assert isinstance(extra, dict)  # noqa: S101 — `setting` wrote it
    seed = str(extra["seed"]) if extra["seed"] else None
    name = Name(field, seed=seed, hidden=bool(extra["hidden"]) or "Secret" in str(info.annotation))
    return Declared(
        name,
        str(extra["group"]),
        info.description or "",
        as_text(info.default),
        str(extra["limits"]),
        is_common=bool(extra["common"]),
    )


def as_text(default: object) -> str | None:
    """Return the value of a setting as it is shown to people; None for an empty one."""
    if default is None or default in ((), {}):
        return None
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def _wrong_value(error: ErrorDetails, given: Mapping[str, GivenValue], known: Sequence[Declared]) -> FieldError:
    field = str(error["loc"][0])
    source = given.get(field) or given[".".join(str(part) for part in error["loc"][:2])]
    reason = plain_message(error)
    text = str(source.value)
    # The text before an @ in something like a URL may be a password.
    shown = "the value" if source.name.hidden or "@" in text else repr(text[:60])
    default = next(each.default for each in known if each.name.field == field)
    remedy = "leave it unset" if default is None else f"leave it unset for the default, {default}"
    return FieldError(
        source.written, f"{shown} in {source.found_in} cannot be used: {reason}. Correct it, or {remedy}."
    )


def _summary(wrong: Sequence[FieldError]) -> str:
    lines = [f"{each.field}: {each.message}" for each in wrong]
    return lines[0] if len(lines) == 1 else "\n- ".join([f"{len(lines)} settings are wrong:", *lines])
