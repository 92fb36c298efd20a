"""Jobs in guests: fixed work, in one or many guests at once, timed by a clock outside them."""
