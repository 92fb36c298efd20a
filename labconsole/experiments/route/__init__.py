"""Guests that forward: the rates of routers that run at once, and whether routes or filters change them."""
