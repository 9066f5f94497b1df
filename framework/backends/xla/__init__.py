"""The backend of XLA: whole graphs as one compiled function of JAX arrays. Needs JAX (extra `xla`)."""

from .compile import compile_graph

__all__ = ["compile_graph"]
