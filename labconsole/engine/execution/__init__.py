"""Executes plans: the trials left, repetitions, stop conditions."""
