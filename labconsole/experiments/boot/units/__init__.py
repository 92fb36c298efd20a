"""Report units on boot trials, one subject per file, each with its ``UNITS``."""
