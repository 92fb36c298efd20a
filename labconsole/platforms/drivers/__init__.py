"""Platform drivers, one file each."""
