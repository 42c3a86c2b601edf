"""Finds the system's Chromium. Forager uses the installed one and never downloads another."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from forager.core.errors import Unconfigured

# The headless shell first: it needs half the memory of the full browser, and loads pages several times faster.
CANDIDATES = (
    "/usr/lib/chromium/chromium-headless-shell",
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
INSTALL = (
    "Install one (Debian: apt-get install chromium-headless-shell), or name it: FORAGER_CHROMIUM=/path/to/chromium"
)


def find_chromium(chosen: str | Path | None = None, *, which: Callable[[str], str | None] = shutil.which) -> Path:
    """Return the configured program, else the first installed one. Raises `Unconfigured` if there is none."""
    if chosen:
        named = Path(chosen)
        if not (named.is_file() and os.access(named, os.X_OK)):
            raise Unconfigured(
                f"FORAGER_CHROMIUM names {named}, which is not a program. Correct it, or leave it unset."
            )
        return named
    installed = next((path for name in CANDIDATES if (path := which(name))), None)
    if installed is None:
        raise Unconfigured(f"There is no Chromium on this machine. {INSTALL}")
    return Path(installed)
