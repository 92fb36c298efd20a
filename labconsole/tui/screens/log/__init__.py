"""Log: everything that happened."""
