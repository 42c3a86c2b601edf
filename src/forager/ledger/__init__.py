"""Durable truth: jobs, tasks, lanes, records, changes, cursors. SQLite and PostgreSQL, each whole, one contract."""
