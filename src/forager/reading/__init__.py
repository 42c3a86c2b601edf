"""Processes that parse pages: the adapter behind `core.reading`. Imports only core; a reader loads the reading
functions of pipelines by the references that the pool sends."""
