"""Compares the runs of a store: their settings, their results, and which parameters made the difference."""

from .importance import Importance, correlation, importance
from .provenance import RESULT_WORDS, Provenance, lineage, provenance
from .run_filters import Condition, differing_settings, known_fields, ordered, parse_condition, resolve
from .run_query import RunQuery, parse_query

__all__ = [
    "RESULT_WORDS",
    "Condition",
    "Importance",
    "Provenance",
    "RunQuery",
    "correlation",
    "differing_settings",
    "importance",
    "known_fields",
    "lineage",
    "ordered",
    "parse_condition",
    "parse_query",
    "provenance",
    "resolve",
]
