"""Callbacks that record and diagnose the trainings of Hugging Face's and Lightning's Trainer."""

from importlib import import_module

_WHERE = {"MindscopeCallback": ".huggingface", "MindscopeLightningCallback": ".lightning"}

__all__ = ["MindscopeCallback", "MindscopeLightningCallback"]


def __getattr__(name: str) -> object:
    """Import a callback on first use, since each needs the library that it is for."""
    if name not in _WHERE:
        raise AttributeError(f"module 'mindscope.callbacks' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_WHERE[name], __name__), name)
