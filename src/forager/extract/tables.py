"""Word lists and tables of facts: TOML files in `data/`, each read once, when the first module that uses it is loaded.

A new language or system is an entry in one of these files. Words are regular expressions where a list is compiled by
`any_of`; the order of its entries is the order in which they are tried.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("data")


@cache
def table(name: str) -> Mapping[str, Any]:
    """Return the content of `data/<name>.toml`."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def any_of(words: Iterable[str], frame: str = "{}", flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """Compile a pattern that matches any of these words, inside of `frame`, in which `{}` marks their place."""
    return re.compile(frame.replace("{}", "|".join(words)), flags)


def by_member(groups: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the name of the group of each member."""
    return {member: name for name, members in groups.items() for member in members}


_UNPARTED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that write words without blanks between them."""


@cache
def spoken(matter: str) -> tuple[str, ...]:
    """Return patterns for the words of a matter (`buy`, `in_stock`, `rent` …) in all languages of `languages.toml`, the
    longest first. A word of a script with blanks is matched as a whole word."""
    found = {word for language in table("languages").values() for word in language[matter]}
    return tuple(_whole(word) for word in sorted(found, key=lambda word: (-len(word), word)))


def _whole(word: str) -> str:
    pattern = r"\s".join(re.escape(part) for part in word.split())
    return pattern if _UNPARTED.search(word) else rf"(?<!\w){pattern}(?!\w)"
