"""The ClickHouse sink: typed tables of records, their history and all changes, over the HTTP interface."""
