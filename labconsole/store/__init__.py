"""Durable storage of runs in SQLite or PostgreSQL: factors and records in tables, columnar time series per run."""
