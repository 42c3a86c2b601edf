"""Processes that parse big pages: the adapter behind `core.offload`. Imports only core."""
