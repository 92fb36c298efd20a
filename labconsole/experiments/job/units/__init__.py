"""What reports show of jobs in guests, a subject a file: its name ``UNITS`` holds what it makes."""
