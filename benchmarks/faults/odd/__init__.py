"""Trainings that look odd and are as they should be, a family a file."""

from . import data, methods, models, optimization
