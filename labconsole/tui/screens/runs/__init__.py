"""All saved runs."""
