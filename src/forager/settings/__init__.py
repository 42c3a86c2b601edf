"""The settings tree: Forager's own settings (`tree.py`), merged with those of features, and how they are loaded.

`forager.app.config` adds the features and returns the whole tree.
"""

from forager.settings.loading import Declared, declared, load
from forager.settings.tree import Settings, merged

__all__ = ["Declared", "Settings", "declared", "load", "merged"]
