"""Measuring on a testbed: sessions, links, leases, trials, plans. Knows nodes, drivers, stores by contracts only."""
