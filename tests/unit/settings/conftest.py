from collections.abc import Mapping
from pathlib import Path

import pytest

from forager.app.config import load_settings
from forager.settings import Settings
from tests.support.settings import Load


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads from an empty environment and folder, plus what is given."""

    def loaded(
        overrides: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        dotenv: str | None = None,
        toml: str | None = None,
    ) -> Settings:
        for name, text in ((".env", dotenv), ("forager.toml", toml)):
            if text is not None:
                (tmp_path / name).write_text(text, "utf-8")
        return load_settings(overrides, env or {}, tmp_path)

    return loaded
