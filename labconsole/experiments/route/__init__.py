"""Guests that forward: what routers beside each other pass on, and whether routes or filters change it."""
