"""Guests that a lab's unit under test offers."""
