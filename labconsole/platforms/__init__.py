"""Platform drivers: one module each, one contract (contracts/driver.py)."""
