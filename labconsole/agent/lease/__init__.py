"""The session that measures on this node: taking the lease, watching it, taking it over."""
