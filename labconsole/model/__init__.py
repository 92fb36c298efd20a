"""What is asked for and what is stored, as typed objects."""
