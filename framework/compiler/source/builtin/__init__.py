"""Python's own functions where they meet traced values: numbers, lengths, loops, text."""

from . import looping, numbers, objects
from .looping import loop_items

__all__ = ["loop_items"]
