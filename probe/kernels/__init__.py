"""Kernels: statistics of arrays in one pass over memory; one contract, several engines."""

from .arrays import readable, statistics_of, values_at
from .bins import USUAL_BINS, Bins
from .checked import measure_checked
from .cpu import STATISTICS, measure, measure_many
from .equality import are_same
from .histogram import count_values, edges_between, histogram_of
from .memory import BFLOAT16, FLOAT16, FLOAT32, FLOAT64
from .more import MORE, NO_MORE, More, measure_more, measure_more_many
from .table import Arrays, table_of, together
from .units import count_silent
from .updates import measure_updates

__all__ = [
    "BFLOAT16",
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
    "count_silent",
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
