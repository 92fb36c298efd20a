"""The bench: set up, run, watch."""
