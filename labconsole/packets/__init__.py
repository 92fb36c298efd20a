"""Test frames and captures of them: built, read, followed by sequence number, timed, counted. Shipped to nodes."""
