"""Guests on a lab's unit under test."""
