"""Word lists and tables of facts: TOML files in `data/`, each read once, when the first module that uses it is loaded.

A new language or system is an entry in one of these files. Words are regular expressions where a list is compiled by
`any_of`; the order of its entries is the order in which they are tried.
"""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
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


_CHARACTER = re.compile(r"\\.|[^\\]", re.DOTALL)


def any_of_lower(words: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that matches any of these words in a text that the caller has put into lower case. Ignoring
    case takes four times as long."""
    pattern = _CHARACTER.sub(lambda each: each[0] if each[0][0] == "\\" else each[0].lower(), "|".join(words))
    return re.compile(pattern)


def by_member(groups: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Return the name of the group of each member."""
    return {member: name for name, members in groups.items() for member in members}


_UNPARTED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that write words without blanks between them."""


@cache
def spoken(matter: str) -> tuple[str, ...]:
    """Return patterns for the words of a matter (`buy`, `in_stock`, `rent` …) in all languages of `languages.toml`; of
    two words with one beginning, the longer one is tried first. A word of a script with blanks is matched as a whole
    word: all of these are one pattern, because a hundred alternatives cost ten times as much as their tree."""
    found = {word for language in table("languages").values() for word in language[matter]}
    unparted = {word for word in found if _UNPARTED.search(word)}
    parted = _tree(found - unparted)
    return tuple(pattern for pattern in (rf"(?<!\w){parted}(?!\w)", _tree(unparted)) if pattern)


def _tree(words: Collection[str]) -> str:
    """Return a pattern for any of these words, by their common beginnings: `b` of `buy` and `buy now` is tried once,
    and only at a letter that one of them begins with."""
    tree: dict[str, Any] = {}
    for word in words:
        branch = tree
        for letter in " ".join(word.lower().split()):
            branch = branch.setdefault(letter, {})
        branch[""] = {}
    first = "".join(re.escape(letter) for letter in sorted(tree))
    return f"(?=[{first}]){_branches(tree)}" if first else ""


def _branches(tree: dict[str, Any]) -> str:
    """Return the pattern of a tree of letters. The end of a word is its key without a letter."""
    inner = [
        (r"\s" if letter == " " else re.escape(letter)) + _branches(below)
        for letter, below in sorted(tree.items())
        if letter
    ]
    if not inner:
        return ""
    joined = inner[0] if len(inner) == 1 and "" not in tree else f"(?:{'|'.join(inner)})"
    return f"{joined}?" if "" in tree else joined
