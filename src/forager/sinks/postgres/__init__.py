"""The PostgreSQL sink: typed tables of records, their history and all changes, in a database of your own."""
