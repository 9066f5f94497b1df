"""Primitives on XLA through JAX: the function of JAX arrays that computes each, and how arrays come in and out.

Needs JAX (extra `xla`). Nothing here is imported before the backend, or a device of it, is asked for.
"""

from . import array_translations, elementwise_translations, layer_translations
from .translation_table import TRANSLATIONS, apply, translation

__all__ = ["TRANSLATIONS", "apply", "translation"]
