"""Stored records: runs, searches, calibrations and notes."""
