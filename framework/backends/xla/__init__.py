"""XLA through JAX: primitives as functions of JAX arrays, and whole graphs as one compiled function.

Needs JAX (extra `xla`). Nothing here is imported before the backend, or a device of it, is asked for.
"""

from . import elementwise, indexing, matrices, normalization, order, place, reduction, window
from .lower import compile_graph
from .translation import TRANSLATIONS, apply, translation

__all__ = ["TRANSLATIONS", "apply", "compile_graph", "translation"]
