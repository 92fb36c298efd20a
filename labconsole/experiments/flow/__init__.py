"""Flows from guests that share one NIC: the throughput of each, and whether one can starve another."""
