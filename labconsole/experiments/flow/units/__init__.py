"""What reports show of flows out of guests, a subject a file: its name ``UNITS`` holds what it makes."""
