"""Changes to a node's network: one class each, which checks, makes, undoes and describes it. Shipped to nodes."""
