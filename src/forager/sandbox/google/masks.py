"""Field masks: which parts of a location are returned. Pure."""

from typing import Any

_FIELDS = frozenset(
    (
        "name", "languageCode", "storeCode", "title", "phoneNumbers", "categories", "storefrontAddress", "websiteUri",
        "regularHours", "specialHours", "serviceArea", "labels", "adWordsLocationExtensions", "latlng", "openInfo",
        "metadata", "profile", "relationshipData", "moreHours", "serviceItems",
    )
)  # fmt: skip


def read_mask(text: str) -> list[tuple[str, ...]] | None:
    """Split a mask such as `name,openInfo.status` into paths; None if a path names no field of a location."""
    paths = [tuple(_camel(part) for part in path.strip().split(".")) for path in text.split(",")]
    return paths if all(path[0] in _FIELDS for path in paths) else None


def masked(whole: dict[str, Any], paths: list[tuple[str, ...]]) -> dict[str, Any]:
    """Return the parts of an object that the mask names; absent parts stay absent."""
    kept: dict[str, Any] = {}
    for path in paths:
        source, target = whole, kept
        for part in path[:-1]:
            inner = source.get(part)
            if not isinstance(inner, dict):
                break
            source, target = inner, target.setdefault(part, {})
        else:
            if path[-1] in source:
                target[path[-1]] = source[path[-1]]
    return {name: value for name, value in kept.items() if value != {}}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
