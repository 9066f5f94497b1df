"""The catalogue of pages, in the order in which the navigation shows them."""

from . import overview, run, findings, robustness  # isort: skip
from ..page import PAGES

__all__ = ["PAGES"]
