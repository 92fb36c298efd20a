"""A testbed measured on: sessions, links, leases, trials, plans. Knows nodes, drivers and stores by contracts only."""
