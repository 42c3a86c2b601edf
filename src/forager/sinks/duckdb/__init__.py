"""The DuckDB sink: typed tables of records, their history and all changes, in one file."""
