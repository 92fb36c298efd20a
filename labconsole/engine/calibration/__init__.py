"""Measures the instrument itself, with the unit under test bypassed."""
