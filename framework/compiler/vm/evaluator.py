"""A program of graphs, run on arrays."""

from collections.abc import Sequence

import numpy as np

from ...ir import Graph
from .code import Closure, Value, complete, owner_of
from .translate import Translator

__all__ = ["Evaluator", "evaluate"]


class Evaluator:
    """A graph made ready to be evaluated many times; the graph must not be changed afterwards."""

    def __init__(self, graph: Graph) -> None:
        self._translator = Translator(graph)
        self._closure = Closure(self._translator.code_of(graph))

    def __call__(self, arguments: Sequence[Value]) -> Value:
        """What the graph returns for arrays, one for each of its parameters (those of weights included).

        Results that are constants of the graph are copies: nobody can change the graph through them.
        """
        return self._apart(complete(self._closure, arguments))

    def _apart(self, value: Value) -> Value:
        if isinstance(value, tuple):
            return tuple([self._apart(part) for part in value])
        is_constant = isinstance(value, np.ndarray) and id(owner_of(value)) in self._translator.constants
        return value.copy() if is_constant else value


def evaluate(graph: Graph, arguments: Sequence[Value]) -> Value:
    """What the graph returns for arrays, one for each of its parameters (those of weights included).

    Tuples come back as tuples, functions as `Closure`.
    """
    return Evaluator(graph)(arguments)
