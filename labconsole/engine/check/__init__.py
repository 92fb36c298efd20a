"""Is a testbed fit to measure on? One module per subject (docs/check.md)."""
