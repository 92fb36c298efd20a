"""Means, intervals, effects and the distributions they rest on."""
