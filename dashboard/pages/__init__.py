"""The catalogue of pages, in the order in which the navigation shows them."""

from . import overview, run, layers, tensor, findings, graph, ranks, compare  # isort: skip
from . import watchpoints, profile, lineage, landscape, robustness, logs  # isort: skip
from ..page import PAGES

__all__ = ["PAGES"]
