"""The messages that console and node exchange. Shipped to nodes."""
