"""Starts of guests: how long they take, cold and hot, and how much memory all of them need."""
