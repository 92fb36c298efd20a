"""Report units on routers, one module per subject, with its units in ``UNITS``."""
