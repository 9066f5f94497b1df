"""Watchpoints: conditions of a person's own, checked live and over stored runs like any rule."""

from .watching import PREFIX, rules_with
from .watchpoint import Watchpoint, watchpoints_of

__all__ = ["PREFIX", "Watchpoint", "rules_with", "watchpoints_of"]
