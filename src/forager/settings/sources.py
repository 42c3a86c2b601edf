"""The sources of settings (flags, environment, `.env`, `forager.toml`) and their precedence.

This module handles names and texts, not their meaning. It reports every mistake: an unknown FORAGER_… name, a line that
cannot be parsed, and two spellings with different values in one source.
"""

import difflib
import io
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv.parser import parse_stream

from forager.core.errors import FieldError

PREFIX = "FORAGER_"
# Names with our prefix that are not settings: those of the tests, and those that a supervisor passes to its child.
NOT_SETTINGS = re.compile(r"FORAGER_TEST_\w+|FORAGER_DATA|FORAGER_BEAT_FD")
ALL = "docs/settings.md lists every name"


@dataclass(frozen=True, slots=True)
class Name:
    """The names of a setting. A seed's name that ends in `*` matches every name with that prefix."""

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
class Given:
    """A value with the name that the user wrote, and its source."""

    name: Name
    slot: str
    """The field; `field.MEMBER` for a member of a family."""
    value: object
    written: str
    place: str


def gather(
    names: Sequence[Name], overrides: Mapping[str, object], env: Mapping[str, str], folder: Path
) -> tuple[dict[str, Given], list[FieldError]]:
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
    counts: dict[str, Given] = {}
    for level in levels:
        for slot, given in _one_each(level, wrong).items():
            counts.setdefault(slot, given)
    return counts, wrong


def assembled(given: Mapping[str, Given]) -> dict[str, Any]:
    """Return the values by field, with the members of a family in one mapping."""
    values: dict[str, Any] = {}
    for slot, each in given.items():
        if each.name.is_family and slot != each.name.field:
            values.setdefault(each.name.field, {})[slot.split(".", 1)[1]] = each.value
        else:
            values[slot] = each.value
    return values


def _from_flags(names: Sequence[Name], overrides: Mapping[str, object], wrong: list[FieldError]) -> list[Given]:
    fields = {name.field: name for name in names}
    values = []
    for field, value in overrides.items():
        flag = f"--{field.replace('_', '-')}"
        if field not in fields:
            wrong.append(FieldError(flag, f"is not a setting{_near(field, fields)}. {ALL}."))
        elif value is not None:
            values.append(Given(fields[field], field, value, flag, "the command line"))
    return values


def _from_variables(
    names: Sequence[Name], texts: Iterable[tuple[str, str]], place: str, wrong: list[FieldError]
) -> Iterator[Given]:
    """Read both spellings of every setting. A name in the wrong case is reported as a mistake."""
    known = {variable: name for name in names for variable in name.variables}
    families = {variable[:-1]: name for variable, name in known.items() if name.is_family}
    for key, value in texts:
        if key in known:
            yield Given(known[key], known[key].field, value.strip(), key, place)
        elif begun := next((start for start in families if key.startswith(start) and key != start), None):
            name = families[begun]
            yield Given(name, f"{name.field}.{key.removeprefix(begun)}", value.strip(), key, place)
        elif key.upper().startswith(PREFIX) and not NOT_SETTINGS.fullmatch(key):
            near = _near(key.upper(), known)
            wrong.append(FieldError(key, f"in {place} is not a setting{near}. Correct or remove it; {ALL}."))


def _from_toml(names: Sequence[Name], table: Mapping[str, Any], wrong: list[FieldError]) -> Iterator[Given]:
    """Read TOML. Values are converted to text, so that they are validated exactly as in the other sources."""
    fields = {name.field: name for name in names}
    place = "forager.toml"
    for key, value in table.items():
        name = fields.get(key)
        if name is None:
            wrong.append(
                FieldError(key, f"in {place} is not a setting{_near(key, fields)}. Correct or remove it; {ALL}.")
            )
        elif name.is_family and isinstance(value, dict):
            yield from (
                Given(name, f"{key}.{member}", str(item), f"{key}.{member}", place) for member, item in value.items()
            )
        elif isinstance(value, list):
            yield Given(name, key, [str(item) for item in value], key, place)
        elif str(value).strip():
            yield Given(name, key, str(value).strip(), key, place)


def _one_each(level: Iterable[Given], wrong: list[FieldError]) -> dict[str, Given]:
    """Return one value per slot. Two spellings in one source may repeat a value, but not differ."""
    slots: dict[str, list[Given]] = defaultdict(list)
    for each in level:
        slots[each.slot].append(each)
    wrong += [
        _differing(spellings)
        for spellings in slots.values()
        if any(each.value != spellings[0].value for each in spellings)
    ]
    return {slot: spellings[0] for slot, spellings in slots.items()}


def _differing(spellings: Sequence[Given]) -> FieldError:
    written = list(dict.fromkeys(each.written for each in spellings))
    place = spellings[0].place
    if len(written) == 1:
        return FieldError(written[0], f"is set more than once in {place}, to different values. Keep one.")
    both = " and ".join(written)
    return FieldError(
        written[0], f"differs from its other spelling: {both} in {place} name the same setting. Keep one."
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
