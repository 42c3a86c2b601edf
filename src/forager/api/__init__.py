"""The HTTP front door. Start reading at `create.py`."""

from forager.api.create import create_api
from forager.api.serve import serve

__all__ = ["create_api", "serve"]
