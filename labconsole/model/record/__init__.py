"""What is stored: records of runs, searches, calibrations and notes."""
