"""Guests that sleep: a toy kind of experiment, copied into the package by tests/house/test_recipe_guests.py."""
