"""What the agent reads of its node: counters, links, drops, settings, what else runs there."""
