"""Formulas that everybody writes with the same names, by the field that they belong to."""
