"""Trainings of several ranks that hang in a known way."""
