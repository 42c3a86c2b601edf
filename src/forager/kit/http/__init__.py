"""The HTTP kit: what a pipeline's `api.py` is written with.

The envelope of every answer, shared parameters, strict JSON bodies, OpenAPI descriptions, and the waiter for tasks.
"""
