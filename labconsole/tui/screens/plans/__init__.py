"""Plans: the files, and the trials of the one that runs."""
