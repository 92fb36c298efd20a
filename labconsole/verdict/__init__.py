"""Derives a trial's record, reasons and verdict from its observations. Pure."""
