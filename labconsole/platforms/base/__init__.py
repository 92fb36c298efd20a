"""What platform drivers share."""
