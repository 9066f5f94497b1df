"""What becomes of a call while bytecode is turned into a graph: gone into, made natively, or the end of the graph.

inside      the user's own functions and the `construct` of his cells: interpreted, so that what they read is guarded
native      the engine's functions, which build the graph; and functions of Python and NumPy that only compute
break       everything else: it may do something, or need values
"""

import builtins
import inspect
from functools import lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from .frame import decode
from .later import handlers

__all__ = ["can_interpret", "is_engine", "is_library", "is_pure"]

_ENGINE = str(Path(__file__).parents[2])

_PURE_BUILTINS = frozenset(
    vars(builtins)[name]
    for name in (
        "abs", "all", "any", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate", "float",
        "format", "frozenset", "hash", "int", "isinstance", "issubclass", "len", "list", "max", "min", "ord", "pow",
        "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
    )
)  # fmt: skip
_PURE_MODULES = ("math", "_operator", "operator", "cmath")
#: Methods that only look at a list, dict or set.
READING = frozenset(("copy", "count", "get", "index", "items", "keys", "values", "union", "intersection", "issubset"))


@lru_cache(maxsize=4096)
def can_interpret(code: CodeType) -> bool:
    """Whether every instruction is known; try and with blocks, generators and coroutines are not."""
    special = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & special or code.co_exceptiontable or "super" in code.co_names:
        return False
    known = handlers()
    return bool(known) and all(instruction.name in known for instruction in decode(code).instructions)


def is_engine(function: Any) -> bool:
    """Whether a function or class is the engine's own."""
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        return code.co_filename.startswith(_ENGINE)
    module = getattr(function, "__module__", None) or ""
    return module.startswith(__package__.rpartition(".compiler")[0])


@lru_cache(maxsize=4096)
def is_library(code: CodeType) -> bool:
    """Whether code belongs to Python's own library or an installed package: it is not gone into."""
    name = code.co_filename
    home = str(Path(inspect.__file__).parent)
    return name.startswith((home, "<frozen")) or "site-packages" in name or "dist-packages" in name


def is_pure(function: Any) -> bool:
    """Whether a callable that is no Python function only computes its result."""
    try:
        if function in _PURE_BUILTINS:
            return True
    except TypeError:
        return False
    if isinstance(function, type):
        return _is_pure_class(function)
    module = getattr(function, "__module__", None) or ""
    if isinstance(function, BuiltinFunctionType):
        owner = getattr(function, "__self__", None)
        if owner is None or isinstance(owner, ModuleType):
            return module in _PURE_MODULES or _is_numpy(module)
        return isinstance(owner, str | tuple | int | float | range | frozenset | bytes)
    return _is_numpy(module) and callable(function)


def _is_pure_class(kind: type) -> bool:
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return True
    return issubclass(kind, BaseException) or is_engine(kind) or _is_numpy(kind.__module__)


def _is_numpy(module: str) -> bool:
    return module.startswith("numpy") and "random" not in module


def function_of(callable_: Any) -> FunctionType | None:
    """The Python function behind a function or method, else None."""
    if isinstance(callable_, MethodType):
        callable_ = callable_.__func__
    return callable_ if isinstance(callable_, FunctionType) else None
