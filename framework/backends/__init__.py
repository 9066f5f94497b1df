"""Backends: what turns an optimised graph into something that runs."""

from ..compiler.pipeline import BACKENDS, Backend, backend_named, register_backend

__all__ = ["BACKENDS", "Backend", "backend_named", "register_backend"]
