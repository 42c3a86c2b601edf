"""Drivers of the engine: the embedded runner, in the process's own event loop."""
