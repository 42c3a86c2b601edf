"""The BigQuery sink: the present state of records, jobs and queries, in tables that are created and kept current."""
