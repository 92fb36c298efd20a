"""Discovery of a testbed: finds the cables between machines, and proposes a hosts.yaml."""
