"""The console's data: state, settings, keys, themes."""
