"""What the instrument itself can do, with the unit under test bypassed."""
