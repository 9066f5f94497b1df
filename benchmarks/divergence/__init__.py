"""Faults that only several ranks together show, injected into small trainings of real processes over gloo."""
