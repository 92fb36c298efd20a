"""Widgets and dialogs that several screens use."""
