"""How settings are declared: Forager's own, and those of a feature.

A feature's own settings are a subclass of `FeatureSettings`. The application merges all of them into one flat tree, so
that `FORAGER_<FIELD>`, `.env`, `forager.toml`, flags, docs/settings.md and error messages work the same way for every
field. A feature reads its part with `settings.of(MySettings)`.
"""

from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Part = TypeVar("Part", bound="FeatureSettings")


def setting(
    default: Any, about: str, *, group: str, seed: str | None = None, hidden: bool = False, **limits: Any
) -> Any:
    """Declare one setting: `rate: int = setting(10, "Maximum queries per second.", group="Mine", ge=1)`.

    `group` is its heading in docs/settings.md, `seed` a second name under which it is read, `hidden` marks text that
    may contain a password, and `limits` are pydantic's `ge`, `gt` and `le`.
    """
    signs = {"ge": "≥", "gt": ">", "le": "≤"}
    bounds = ", ".join(f"{signs[limit]} {bound:,}" for limit, bound in limits.items())
    extra: dict[str, Any] = {"group": group, "seed": seed, "hidden": hidden, "limits": bounds}
    return Field(default, description=about, repr=not hidden, json_schema_extra=extra, **limits)


class FeatureSettings(BaseModel):
    """The settings of one feature. Field names are global: choose names that no other feature uses."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, str_strip_whitespace=True, hide_input_in_errors=True
    )


class SettingsTree(Protocol):
    """All settings, merged."""

    def of(self, part: type[Part]) -> Part:
        """Return the typed settings of one feature. Raises `LookupError` if the feature is not among the merged
        ones."""
        ...
