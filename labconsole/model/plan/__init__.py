"""Plans: what to measure, how often, in which order."""
