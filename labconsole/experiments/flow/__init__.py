"""Flows out of guests that share one NIC: who gets what of it, and whether one can take it from another."""
