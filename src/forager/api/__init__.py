"""The HTTP front door. Start reading at `create.py`; `serve.py` has the server, which few processes need."""

from forager.api.create import create_api

__all__ = ["create_api"]
