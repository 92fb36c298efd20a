"""Interfaces that other rooms implement: node links, platform drivers, stores, report units."""
