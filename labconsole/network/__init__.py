"""Changes to a node's network. Shipped to nodes."""
