"""What others fill in: node links, platform drivers, stores, units of a report."""
