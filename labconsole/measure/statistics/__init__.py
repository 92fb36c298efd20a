"""Means, intervals, effects, and their distributions."""
