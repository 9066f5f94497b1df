"""Primitives on XLA through JAX: the function of JAX arrays that computes each, and how arrays come in and out.

Needs JAX (extra `xla`). Nothing here is imported before the backend, or a device of it, is asked for.
"""

from . import elementwise, indexing, matrices, normalization, order, place, reduction, window
from .translation import TRANSLATIONS, apply, translation

__all__ = ["TRANSLATIONS", "apply", "translation"]
