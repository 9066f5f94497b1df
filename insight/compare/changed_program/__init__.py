"""What was done to a program between a good run and another, and the cause that it speaks of.

Start with `named_change`.
"""

from .named_change import named_change, named_evaluation

__all__ = ["named_change", "named_evaluation"]
