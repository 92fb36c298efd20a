"""What reports show of routers, a subject a file: its name ``UNITS`` holds what it makes."""
