"""Boot trials: how long guests take to start, cold and hot, and how much memory they all need."""
