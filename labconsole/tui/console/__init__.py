"""What the console knows and keeps: state, settings, keys, themes."""
