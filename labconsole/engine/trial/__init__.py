"""One trial: set up, measured, cleaned up, saved."""
