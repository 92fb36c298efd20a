"""Moves runs between stores."""
