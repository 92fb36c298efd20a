"""The evidence archive: a report with all that it rests on, packed and verified."""
