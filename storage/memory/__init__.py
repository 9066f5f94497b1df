"""A store that lives as long as its process; the measure for every other."""
