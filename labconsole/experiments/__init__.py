"""Kinds of experiment, one package each."""
