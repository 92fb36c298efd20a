"""Common parts of platform drivers."""
