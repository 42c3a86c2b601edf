"""What the two apartments actors accept: checked when a run is started, so that bad input makes no run. Pure."""

from typing import Any

API_ACTOR = "epctex~apartments-scraper-api"
OLD_ACTOR = "epctex~apartments-scraper"
ACTORS = {API_ACTOR: "c7YhPx1uRk3sTb9Qe", OLD_ACTOR: "v2NfLq8wDz4mXk6Ja"}
"""The actors of the sandbox, by name, with their ids."""
_NAMES = {actor_id: name for name, actor_id in ACTORS.items()}
_SHARED: dict[str, tuple[type, str]] = {
    "search": (str, "string"),
    "startUrls": (list, "array"),
    "maxItems": (int, "integer"),
    "endPage": (int, "integer"),
}
_KNOWN = {
    API_ACTOR: {
        **_SHARED,
        **dict.fromkeys(
            ("includeReviews", "includeVisuals", "includeInteriorAmenities", "includeWalkScore"), (bool, "boolean")
        ),
    },
    OLD_ACTOR: {
        **_SHARED,
        "proxy": (dict, "object"),
        "extendOutputFunction": (str, "string"),
        "customMapFunction": (str, "string"),
    },
}


def actor_named(text: str) -> str | None:
    """The name of an actor that a path names by name or id; None if there is no such actor."""
    return text if text in ACTORS else _NAMES.get(text)


def problem_of(actor: str, sent: dict[str, Any]) -> str | None:
    """What is wrong with this input, in Apify's words; None if the actor takes it."""
    known = _KNOWN[actor]
    for name, value in sent.items():
        if name not in known:
            return f"Property input.{name} is not allowed."
        kind, word = known[name]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            return f"Field input.{name} must be {word}"
    if not sent.get("search") and not sent.get("startUrls"):
        return "Field input.search is required"
    if not all(isinstance(url, str) for url in sent.get("startUrls", [])):
        return "Field input.startUrls must be array of strings"
    if actor == OLD_ACTOR and "proxy" not in sent:
        return "Field input.proxy is required"
    return None
