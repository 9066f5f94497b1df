"""A graph compiled by XLA to an executable of arrays."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ...ir import Graph
from ...xla.arrays import Owned, Shared
from .program import Program

__all__ = ["compile_graph"]


def compile_graph(graph: Graph, *, given: dict[int, Any] | None = None) -> Any:
    """The graph as an executable of arrays, compiled by XLA when it is first called.

    Args:
        graph: An outermost graph. Branches over tensors and loops are compiled; other recursion is an error.
        given: Arrays that outputs are to be written to, by number of the output: the arena of an optimizer.
    """

    def program(*arguments: Any) -> tuple[Any, list[Any]]:
        return Program(graph).run(arguments)

    compiled, shared = jax.jit(program), Shared()

    def execute(arguments: Sequence[Any]) -> Any:
        with jax.enable_x64(True):
            result, assigned = compiled(*[shared(x) for x in arguments])
        owned = Owned(arguments)
        for target, value in zip(arguments, assigned, strict=True):
            if value is not None:
                target[...] = np.asarray(value)
        if not given:
            return jax.tree.map(owned, result)
        return tuple([_written(y, given.get(number), owned) for number, y in enumerate(result)])

    return execute


def _written(y: Any, out: Any, owned: Owned) -> Any:
    if out is None:
        return jax.tree.map(owned, y)
    out[...] = np.asarray(y)
    return out
