"""Compiles kernels with numba to functions of the C interface."""

from importlib import import_module
from typing import Any, Final

from numba import cfunc

_TYPES: Final = {"v": "void", "q": "int64", "d": "float64"}


def compile_kernel(file: str, name: str, result: str, arguments: str, *, is_kept: bool) -> Any:  # Any: untyped
    """Return numba's C function of the kernel of this name in a file of this folder.

    Args:
        result, arguments: A letter for each type: `v` nothing, `q` int64, `d` float64.
        is_kept: Whether the caller keeps its object file; otherwise numba's own cache keeps it, if it can.
    """
    function = getattr(import_module(f".{file}", __package__), name)
    signature = f"{_TYPES[result]}({', '.join(_TYPES[letter] for letter in arguments)})"
    if not is_kept:
        try:
            return cfunc(signature, error_model="numpy", cache=True)(function)
        except RuntimeError:  # there is no folder that numba could write to either
            pass
    return cfunc(signature, error_model="numpy")(function)


def object_file(function: Any) -> tuple[str, bytes]:  # Any: as above
    """Return the name of a C function that was just compiled, and the object file of it and all that it calls."""
    library = function._library
    machine = library.codegen._tm
    return function._wrapper_name, machine.emit_object(library._final_module)
