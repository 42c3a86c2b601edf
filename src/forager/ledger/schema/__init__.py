"""The schema: core tables, record tables made from record classes, views, and the migrations between revisions."""
