"""Curves from the store."""
