"""Every setting of Forager: declared once in `tree.py`, read from flags, environment and files by `sources.py`."""

from forager.settings.tree import LATER, Declared, Settings, declared, load_settings

__all__ = ["LATER", "Declared", "Settings", "declared", "load_settings"]
