"""Mistakes that others wrote into programs, of which only the texts are read."""
