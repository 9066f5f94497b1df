"""Reverse mode: from a result back through the recorded nodes to the tensors it was made of."""

from .backward import gradients, pull
from .hooks import apply_hooks, tell_start, tell_start_of

__all__ = ["apply_hooks", "gradients", "pull", "tell_start", "tell_start_of"]
