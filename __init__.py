"""mindscope watches a training run from the inside and says what goes wrong, where, since when and why."""

from importlib import import_module

from .garbage import uncollected

__version__ = "0.1.0"

_WHERE = {"watch": ".watching", "open_store": ".storage", "diagnose": ".insight", "quantity": ".probe"}

__all__ = ["__version__", "diagnose", "open_store", "quantity", "watch"]


def __getattr__(name: str) -> object:
    """Import a public name on first use: importing one package never loads the others."""
    if name not in _WHERE:
        raise AttributeError(f"module 'mindscope' has no attribute {name!r}; it has {', '.join(__all__)}")
    with uncollected():
        return getattr(import_module(_WHERE[name], __name__), name)


def __dir__() -> list[str]:
    """Return the names of the module, with those that load on first use."""
    return sorted({*globals(), *__all__})
