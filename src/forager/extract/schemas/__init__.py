"""Custom fields: the contents of a schema, reading a page with it, and learning paths from examples."""
