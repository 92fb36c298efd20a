"""Arithmetic on counts and on runs. Pure."""
