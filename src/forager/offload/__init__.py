"""Processes that read big pages: the adapter behind `core.offload`. Imports core alone."""
