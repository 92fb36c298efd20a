"""Generators of traffic: the kernel's pktgen, and the agent's own sender."""
