"""Report units on jobs in guests, one subject per file, each with its ``UNITS``."""
