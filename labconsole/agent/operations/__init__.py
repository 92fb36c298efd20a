"""Requests that a console can send to the agent, one module per subject."""
