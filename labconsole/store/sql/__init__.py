"""The tables of a store, in SQLite and PostgreSQL."""
