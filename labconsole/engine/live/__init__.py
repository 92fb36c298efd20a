"""Live view of a running testbed: events, samples, history."""
