"""What reports show of forwarding trials, a subject a file: its name ``UNITS`` holds what it makes."""
