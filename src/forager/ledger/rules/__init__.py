"""Rules and encodings that SQLite and PostgreSQL share because they do not depend on the database."""
