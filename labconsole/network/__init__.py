"""Changes to a node's network: one class each, which checks, makes, undoes and tells it. Shipped to nodes."""
