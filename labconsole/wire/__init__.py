"""What console and node say to each other. Shipped to nodes."""
