"""What a backend is, and the table of backends by name; one is loaded when it is first asked for."""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from ..errors import NameTaken

__all__ = ["BACKENDS", "Backend", "backend_named", "register_backend"]

#: `backend(graph, **options)`: an executable, as `pipeline.Executable` describes it.
Backend = Callable[..., Any]

BACKENDS: dict[str, Backend] = {}

# Our own, imported on first use, since backends stand above the compiler: module and function.
_BUILT_IN = {"numpy": ("..backends.numpy", "compile_graph"), "xla": ("..backends.xla", "compile_graph")}


def register_backend(name: str) -> Callable[[Backend], Backend]:
    """A decorator: the function `(graph, **options) -> executable` becomes the backend of that name.

    The executable is called with a list of arrays, one for each parameter of the graph, and returns an array or a
    tuple of arrays, as the type of the graph's output has it; they belong to the caller.

    Raises:
        NameTaken: A backend of that name stands already.
    """

    def register(backend: Backend) -> Backend:
        if name in BACKENDS or name in _BUILT_IN:
            raise NameTaken(f"a backend '{name}' is registered already; give the new one another name")
        BACKENDS[name] = backend
        return backend

    return register


def backend_named(name: str) -> Backend:
    """The backend of that name.

    Raises:
        KeyError: There is none, or what it needs is not installed.
    """
    if name not in BACKENDS and name in _BUILT_IN:
        module, function = _BUILT_IN[name]
        try:
            BACKENDS[name] = getattr(import_module(module, __package__), function)
        except ModuleNotFoundError as error:
            raise KeyError(
                f"backend '{name}' needs {error.name}, which is not installed; pip install mindscope[{name}]"
            ) from error
    if name not in BACKENDS:
        known = sorted({*BACKENDS, *_BUILT_IN})
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise KeyError(f"no backend '{name}'{hint}; known are {', '.join(known)}")
    return BACKENDS[name]
