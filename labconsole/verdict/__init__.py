"""From what a trial observed to its record, its reasons and its verdict. Pure."""
