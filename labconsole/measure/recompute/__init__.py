"""A second, independent statement of every derived number, for verification."""
