"""Other queues doing the same no-op work, as scripts for an environment of their own. Never imported by a benchmark."""
