"""The composition root: the only package that builds adapters and knows every pipeline.

Everything above it (API, CLI) uses an `App`; everything below it is passed what it needs and reads no setting.
"""

from forager.app.application import App
from forager.app.opening import open_app

__all__ = ["App", "open_app"]
