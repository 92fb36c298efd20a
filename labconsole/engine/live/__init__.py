"""What is seen of a testbed while it runs: events, samples, history."""
