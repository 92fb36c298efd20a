"""What reports show of load searches, a subject a file: its name ``UNITS`` holds what it makes."""
