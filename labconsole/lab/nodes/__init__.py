"""Nodes of a lab: namespaces, links, SSH servers."""
