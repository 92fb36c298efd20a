"""Forwarding trials: packets at a load through one platform, and what a report makes of them."""
