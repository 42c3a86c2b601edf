"""Prints places whose English deserves a second look: the five forms that HOUSE calls translated. It enforces nothing.

python -m scripts.english src/forager/engine docs        # places, grouped by form
python -m scripts.english --count src tests docs         # totals only
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

FORMS = {
    "fragment": re.compile(r"^(What|Whether|How|By|Of|Those|Where|Which|Who|That|So|Since when|When)\b(?!.*\?$)"),
    "speaking data": re.compile(
        r"\b(says?|said|tells?|told|knows?|knew|asks?|asked|hears?|heard|takes us for)\b"
        r"|\b(may not be asked|(?-i:is none|are none)|cannot be had|looked after|worth telling)\b",
        re.IGNORECASE,
    ),
    "so many": re.compile(r"\bso (many|long|often|much|far|few)\b(?! that| as)", re.IGNORECASE),
    "adverb": re.compile(
        r"\b(beside|anew|also|too|besides|alike|at all|in vain|for good|once more)[.,;:)]|\bbeside (it|them)\b",
        re.IGNORECASE,
    ),
    "relative clauses": re.compile(
        r"\b(that|which|whose|who|what)\b[^.;:,]{3,60}\b(that|which|whose|who|what)\b", re.IGNORECASE
    ),
    "spelling": re.compile(r"\blog-in\b", re.IGNORECASE),
}
PROSE_SUFFIXES = {".md", ".yml", ".toml", ".sql"}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file with its line numbers: docstrings, comments and messages, or the lines of a page."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            for number, line in enumerate(node.value.splitlines()):
                yield node.lineno + number, line.strip()
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def files(arguments: list[str]) -> Iterator[Path]:
    """Yield the files below the given folders that contain prose."""
    for argument in arguments or ["src", "tests", "docs", "README.md", "CHANGELOG.md"]:
        root = Path(argument)
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix in PROSE_SUFFIXES | {".py"} and "node_modules" not in path.parts:
                yield path


def main() -> None:
    arguments = sys.argv[1:]
    only_count = "--count" in arguments
    found = Counter[str]()
    for path in files([argument for argument in arguments if argument != "--count"]):
        for line, text in sorted(texts(path)):
            for form, pattern in FORMS.items():
                if pattern.search(text):
                    found[form] += 1
                    if not only_count:
                        print(f"{path}:{line}: {form}: {text[:150]}")
    for form, count in found.most_common():
        print(f"{count:6}  {form}", file=sys.stderr)


if __name__ == "__main__":
    main()
