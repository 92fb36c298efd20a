"""Nodes: who is there, in which state."""
