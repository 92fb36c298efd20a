"""The evidence archive: a report with everything it rests on, packed and verified."""
