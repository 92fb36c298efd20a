"""Nodes: connections and states."""
