"""The composition root: the only package that builds adapters and depends on every pipeline.

Everything above it (API, CLI) uses an `App`; everything below it is passed what it needs and reads no setting.
"""
