"""Two sides of measurements, or many occasions: changes, gates, trends, and what each is shown as."""
