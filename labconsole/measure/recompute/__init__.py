"""Every derived number stated a second time, for those who verify."""
