"""From machines to a testbed: which of their ports are wired to each other, and the hosts.yaml that follows."""
