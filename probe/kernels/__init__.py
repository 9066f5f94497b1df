"""Kernels: statistics of arrays in one pass over memory; one contract, several engines."""

from .array_table import Arrays, readable, statistics_of, table_of, together, values_at
from .cpu import STATISTICS, measure, measure_many, measure_updates
from .fingerprints import are_same
from .histogram_bins import USUAL_BINS, Bins, count_values, edges_between, histogram_of
from .more import FLAGS, MORE, NO_MORE, More, measure_checked, measure_more, measure_more_many
from .raw_memory import BFLOAT16, FLOAT16, FLOAT32, FLOAT64

__all__ = [
    "BFLOAT16",
    "FLAGS",
    "FLOAT16",
    "FLOAT32",
    "FLOAT64",
    "MORE",
    "NO_MORE",
    "STATISTICS",
    "USUAL_BINS",
    "Arrays",
    "Bins",
    "More",
    "are_same",
    "count_values",
    "edges_between",
    "histogram_of",
    "measure",
    "measure_checked",
    "measure_many",
    "measure_more",
    "measure_more_many",
    "measure_updates",
    "readable",
    "statistics_of",
    "table_of",
    "together",
    "values_at",
]
