"""Units of reports on naps."""
