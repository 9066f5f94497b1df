"""Compares the runs of a store: their settings, their results, and which parameters made the difference."""

from .importance import Importance, correlation, importance
from .provenance import RESULT_WORDS, Provenance, lineage, provenance
from .run_filters import Condition, differing_settings, known_fields, ordered, parse_condition, resolve, select

__all__ = [
    "RESULT_WORDS",
    "Condition",
    "Importance",
    "Provenance",
    "correlation",
    "differing_settings",
    "importance",
    "known_fields",
    "lineage",
    "ordered",
    "parse_condition",
    "provenance",
    "resolve",
    "select",
]
