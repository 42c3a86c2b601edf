"""Deterministic simulation of the whole application: `python -m tests.simulate`, described in
docs/contributing/simulation.md."""
