"""Values in JSON of any shape, found by what their keys are called. Pure."""

from collections import deque
from collections.abc import Iterator
from typing import Any

MOST_NODES = 20_000
DEEPEST = 30


def plain_key(name: str) -> str:
    """`PositionTitle`, `position_title` and `position-title` are one."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def values_by_key(tree: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """Path and value of each of these keys; an earlier name before a later one, an outer value before an inner one."""
    by_key: dict[str, list[tuple[str, Any]]] = {plain_key(name): [] for name in names}
    waiting: deque[tuple[str, int, Any]] = deque([("", 0, tree)])
    for _ in range(MOST_NODES):
        if not waiting:
            break
        path, depth, value = waiting.popleft()
        if depth > DEEPEST:
            continue
        if isinstance(value, list):
            waiting.extend((path, depth + 1, one) for one in value[:100])
        elif isinstance(value, dict):
            for name, inner in list(value.items())[:500]:
                here = f"{path}.{name}" if path else str(name)
                hits = by_key.get(plain_key(str(name)))
                if hits is not None:
                    hits.append((here, inner))
                if isinstance(inner, dict | list):
                    waiting.append((here, depth + 1, inner))
    for hits in by_key.values():
        yield from hits
