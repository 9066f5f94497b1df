"""Documents that a running training and those who look at it leave each other."""
