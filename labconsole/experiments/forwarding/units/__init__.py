"""Report units on forwarding trials, one subject per file, each with its ``UNITS``."""
