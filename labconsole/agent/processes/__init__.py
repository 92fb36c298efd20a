"""Processes and namespaces that never outlive the agent."""
