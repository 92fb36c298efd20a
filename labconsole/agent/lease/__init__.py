"""Who measures on this node: holding the lease, watching it, taking it over."""
