"""Forwarding trials: packets at a load through one platform, and their report units."""
