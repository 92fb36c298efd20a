"""The program on a node: the agent and its keeper. Shipped to nodes."""
