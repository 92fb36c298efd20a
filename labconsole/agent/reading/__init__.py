"""The agent's readings of its node: counters, links, drops, settings, other activity."""
