"""What SQLite and PostgreSQL share: rules and encodings that do not depend on the database."""
