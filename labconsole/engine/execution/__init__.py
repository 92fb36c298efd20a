"""Plans carried out: what is left, what is taken again, when it stops."""
