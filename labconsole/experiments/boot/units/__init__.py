"""What reports show of starts of guests, a subject a file: its name ``UNITS`` holds what it makes."""
