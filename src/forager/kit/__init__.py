"""What a pipeline's edge files are written with: the feature that ties them together, query kit, HTTP kit, CLI kit.

Imports `core` alone, so that any pipeline, ours or another package's, can import it without importing the application.
"""
