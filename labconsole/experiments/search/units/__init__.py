"""Report units on load searches, one subject per file, each with its ``UNITS``."""
