"""Runs moved between stores."""
