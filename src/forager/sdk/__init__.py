"""Building blocks for a pipeline's edge files: the feature that ties them together, query kit, HTTP kit, CLI kit.

It imports only `core`, so that a pipeline, ours or another package's, can use it without importing the application.
"""
