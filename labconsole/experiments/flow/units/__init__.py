"""Report units on flows from guests, one module per subject, with its units in ``UNITS``."""
