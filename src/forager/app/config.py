"""The settings of this installation: Forager's own, and those of every feature and sink, in one flat tree."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from forager import settings
from forager.app.features import all_features, all_sinks
from forager.settings import Declared, Settings
from forager.storage.settings import S3Settings


@cache
def settings_class() -> type[Settings]:
    """`Settings` with the fields of every feature and sink. Raises `ValueError` if two declare the same name."""
    parts = [*(each.settings for each in all_features()), *(each.settings for each in all_sinks())]
    return settings.merged([S3Settings, *(part.load() for part in parts if part is not None)])


def declared_settings() -> tuple[Declared, ...]:
    """Return every setting as the documentation needs it."""
    return settings.declared(settings_class())


def load_settings(
    overrides: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Settings:
    """Read flags, the environment, `.env` and `forager.toml`. Raises `Rejected`, naming everything that is wrong.

    `overrides` holds command line flags by field; None there means that the flag was not given.
    """
    return settings.load(settings_class(), overrides, env, cwd)


def new_settings(**values: Any) -> Settings:
    """Settings with these values and the defaults. Reads neither the environment nor a file."""
    return settings_class()(**values)
