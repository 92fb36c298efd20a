"""Results as plain text for the headless commands."""
