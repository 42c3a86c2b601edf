"""The HTTP kit: building blocks for a pipeline's `api.py`.

The envelope of every answer, shared parameters, strict JSON bodies, OpenAPI descriptions, and the waiter for tasks.
"""
